import { renderMermaidSVG } from 'beautiful-mermaid';
import type { MarkdownRenderer } from 'vitepress';

/** The text that a screen reader reads for a diagram. GitHub's Mermaid has the same line. */
const TITLE = /^ *accTitle: *(.+)\n/m;

/** Renders blocks of the language `mermaid` as inline SVG. The colours are variables of theme/style.css. */
export function drawDiagrams(markdown: MarkdownRenderer): void {
  const fence = markdown.renderer.rules.fence!;
  markdown.renderer.rules.fence = (tokens, index, ...rest) => {
    const { info, content } = tokens[index]!;
    return info.trim() === 'mermaid' ? drawing(content) : fence(tokens, index, ...rest);
  };
}

function drawing(source: string): string {
  const title = TITLE.exec(source)?.[1];
  if (!title) throw new Error(`a Mermaid diagram has no accTitle:\n${source}`);
  // The renderer's style element loads a font from another origin and applies to the whole page.
  const svg = renderMermaidSVG(source.replace(TITLE, ''), { transparent: true })
    .replace(/<style>.*?<\/style>/s, '')
    .replace(/ style="--bg[^"]*"/, '');
  const notes = [source.match(/^ *Note /gm), svg.match(/class="note"/g)].map((all) => all?.length);
  if (notes[0] !== notes[1]) throw new Error(`a note before the first message is lost:\n${source}`);
  const label = title.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
  return `<div class="diagram" role="img" aria-label="${label}" v-pre>${svg}</div>\n`;
}
