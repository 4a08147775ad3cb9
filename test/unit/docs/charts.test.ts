import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const DOCS = new URL('../../../docs/', import.meta.url);
const PICTURES = readdirSync(DOCS, { encoding: 'utf8', recursive: true }).filter((file) =>
  file.endsWith('.svg'),
);

describe('the charts of the documentation', () => {
  it.each(PICTURES)('can be read in both colour schemes, with titles of axes: %s', (file) => {
    const svg = readFileSync(new URL(file, DOCS), 'utf8');
    expect(svg).toContain('@media (prefers-color-scheme: dark)');
    expect(svg).toContain('logarithmic scale</text>');
    expect(svg).not.toContain('undefined');
  });
});
