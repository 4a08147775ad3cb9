// node scripts/run.mjs dist-scripts/chaos.mjs [arguments]
// Builds what a compiled program needs, if it is out of date, and runs the program in this process.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from './build.mjs';

const [program] = process.argv.splice(2, 1);
const file = join(import.meta.dirname, '..', program);
build('lib', program.slice('dist-'.length).split('/')[0]);
// The program finds its own path where Node puts it.
process.argv[1] = file;
await import(pathToFileURL(file).href);
