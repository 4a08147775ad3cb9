// npm run docs:reference
import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { referencePages } from './docs/reference/pages.js';
import { readOptions } from './options.mjs';
import { root } from './packed.mjs';

readOptions({
  name: 'docs:reference',
  about: `Writes the tables of docs/reference/ from the types and the doc comments of lib/: the text between
\`<!-- generated: … -->\` and \`<!-- end -->\`. \`npm run check:docs\` fails if a table is out of date.`,
  options: {},
});

for (const { file, text, generated } of await referencePages()) {
  if (text === generated) continue;
  writeFileSync(file, generated);
  console.log(`wrote ${relative(root, file)}`);
}
