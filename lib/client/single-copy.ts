// The package has two forms, ES modules and CommonJS, with classes of their own: Nest would not find the providers of
// one form by the classes of the other. Node loads the ES modules for both `import` and `require()`, but some test
// runners and bundlers load the CommonJS form for `require()`. This file fails if a program loads both forms.

const FORMS = Symbol.for('nestjs-zookeeper:forms');

interface Global {
  /** The files of this module that were loaded, by form. */
  [FORMS]?: { 'ES module'?: string; CommonJS?: string };
}

// Some bundlers leave it undefined.
const file = String(import.meta.url);
const forms = ((globalThis as Global)[FORMS] ??= {});
forms[file.includes('/dist/cjs/') ? 'CommonJS' : 'ES module'] = file;
if (forms['ES module'] && forms.CommonJS) {
  throw new Error(
    `nestjs-zookeeper is loaded both as ES modules (${forms['ES module']}) and as CommonJS (${forms.CommonJS}): ` +
      'load it only by import or only by require(), in the test files and in all packages that use it',
  );
}
