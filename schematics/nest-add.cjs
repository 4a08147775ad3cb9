// Runs for `nest add nestjs-zookeeper`, after the Nest CLI has installed the package. Edits the module and main.ts as
// plain text, which needs no further package. If the text of a file is not as expected, it does not change the file and
// prints the manual steps.

const IMPORT = "import { ZkModule } from 'nestjs-zookeeper';";
const MODULE = 'ZkModule.forRoot({ connectString: process.env.ZK_CONNECT_STRING })';
const BY_HAND = `Add to the root module: ${IMPORT} and, in its imports, ${MODULE}`;

const HOOKS_BY_HAND =
  'Call app.enableShutdownHooks() after NestFactory.create(): otherwise a process that is stopped keeps its locks until its session times out.';

exports.nestAdd = ({ sourceRoot = 'src' } = {}) => {
  return (tree, { logger }) => {
    addModule(tree, logger, `${sourceRoot}/app.module.ts`);
    addShutdownHooks(tree, logger, `${sourceRoot}/main.ts`);
    return tree;
  };
};

function addModule(tree, logger, file) {
  if (!tree.exists(file)) {
    logger.warn(`There is no ${file}. ${BY_HAND}`);
    return;
  }
  const source = tree.read(file).toString('utf8');
  if (/\bZkModule\.forRoot/.test(source)) {
    logger.info(`${file} has a ZkModule already.`);
    return;
  }
  const edited = withModule(source);
  if (edited === undefined) {
    logger.warn(`${file} has no @Module({ … }) of its own, or its imports are no list. ${BY_HAND}`);
    return;
  }
  tree.overwrite(file, withImport(edited));
  logger.info(
    'Set ZK_CONNECT_STRING to the servers (zk1:2181,zk2:2181). Without a server, ZkModule.forRoot({ embedded: true }) starts one in the process, for development.',
  );
}

/** Adds the call after the statement that creates the application, where there is exactly one. */
function addShutdownHooks(tree, logger, file) {
  const source = tree.exists(file) ? tree.read(file).toString('utf8') : '';
  if (/^(?!\s*\/\/).*\benableShutdownHooks\b/m.test(source)) return;
  const [created, another] = source.matchAll(
    /^([ \t]*)(?:const|let)\s+(\w+)\s*=\s*await\s+NestFactory\.create\w*(?:<[^;()]*>)?(?=\()/gm,
  );
  const end = created && !another && endOfStatement(source, created.index + created[0].length);
  if (!end) {
    logger.warn(`${file} was not changed. ${HOOKS_BY_HAND}`);
    return;
  }
  const [, indent, app] = created;
  tree.overwrite(file, insert(source, end, `\n${indent}${app}.enableShutdownHooks();`));
}

/** Returns where the statement ends whose arguments begin at `start`; undefined if more follows on the line. */
function endOfStatement(source, start) {
  let depth = 0;
  for (let at = start; at < source.length; at++) {
    if (source[at] === '(') depth++;
    if (source[at] !== ')' || --depth > 0) continue;
    const [rest, ending] = /^(;?)[^\n]*/.exec(source.slice(at + 1));
    return rest.trim() === ending ? at + 1 + ending.length : undefined;
  }
  return undefined;
}

function withModule(source) {
  const module = /@Module\(\s*\{/.exec(source);
  if (!module) return undefined;
  const start = module.index + module[0].length;
  const imports = /[\s,]imports:\s*\[/.exec(source.slice(start));
  if (!imports) {
    const [metadata] = source.slice(start).split(/\}\s*\)/);
    // A shorthand or a variable.
    if (/\bimports\b/.test(metadata)) return undefined;
    return insert(source, start, `\n  imports: [${MODULE}],`);
  }
  const at = start + imports.index + imports[0].length;
  const [rest] = /^\s*\S/.exec(source.slice(at));
  if (rest.endsWith(']')) return insert(source, at, MODULE);
  const separator = rest.slice(0, -1);
  return insert(source, at, separator ? `${separator}${MODULE},` : `${MODULE}, `);
}

function withImport(source) {
  if (source.includes(IMPORT)) return source;
  const imports = [...source.matchAll(/^import\s[^;]*?from\s*['"][^'"]+['"];?\r?\n/gm)];
  const last = imports.at(-1);
  return last
    ? insert(source, last.index + last[0].length, `${IMPORT}\n`)
    : `${IMPORT}\n\n${source}`;
}

function insert(text, at, addition) {
  return text.slice(0, at) + addition + text.slice(at);
}
