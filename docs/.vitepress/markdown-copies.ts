import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ENGLISH_PAGES, titleOf } from './sidebar.js';

const DOCS = join(import.meta.dirname, '..');

/** Writes each page as Markdown beside its HTML, and llms.txt and llms-full.txt (https://llmstxt.org). */
export function writeMarkdownCopies(site: string, address: string, description: string): void {
  const links: string[] = [];
  const texts: string[] = [];
  for (const page of ENGLISH_PAGES) {
    const target = join(site, `${page}.md`);
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(join(DOCS, `${page}.md`), target);
    links.push(`- [${titleOf(page)}](${address}/${page}.md)`);
    const text = readFileSync(target, 'utf8').replace(/<!--.*?-->\n*/gs, '');
    texts.push(`<!-- ${address}/${page} -->\n\n${text}`);
  }
  const head = `# nestjs-zookeeper\n\n> ${description}\n`;
  writeFileSync(join(site, 'llms.txt'), `${head}\n## Pages\n\n${links.join('\n')}\n`);
  writeFileSync(join(site, 'llms-full.txt'), `${head}\n${texts.join('\n')}`);
}
