import { fileURLToPath } from 'node:url';

const PAGE = fileURLToPath(new URL('../sample-app/page/', import.meta.url));

/**
 * Returns an HTML page with figures and a timeline of a run. The page loads nothing from elsewhere.
 *
 * @param {string} title
 * @param {[name: string, value: string | number][]} facts
 * @param {object} timeline the data of the timeline component, see sample-app/page/timeline/data.ts
 */
export async function reportPage(title, facts, timeline) {
  const { script, style } = await bundle();
  // Text such as `</script>` must not end a script.
  const data = JSON.stringify({ title, facts, timeline }).replaceAll('<', '\\u003c');
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>${title}</title>
<style>${style}</style>
<main></main>
<script id="report-data" type="application/json">${data}</script>
<script type="module">${script.replaceAll('</script', '<\\/script')}</script>
</html>
`;
}

/** Bundles the component of the report with its style sheet. */
async function bundle() {
  const { build } = await import('vite');
  const built = await build({
    configFile: `${PAGE}vite.config.ts`,
    build: {
      write: false,
      cssCodeSplit: false,
      rolldownOptions: { input: `${PAGE}report/report.tsx` },
    },
  });
  const files = 'output' in built ? built.output : [];
  const script = files.find((file) => file.type === 'chunk');
  const style = files.find(({ fileName }) => fileName.endsWith('.css'));
  if (script?.type !== 'chunk' || style?.type !== 'asset')
    throw new Error('the page was not built');
  return { script: script.code, style: String(style.source) };
}
