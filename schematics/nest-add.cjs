// Runs for `nest add nestjs-zookeeper`, after the Nest CLI has installed the package. Edits the module as
// plain text, which needs no further package. If the text is not as expected, it changes nothing and
// prints the manual steps.

const IMPORT = "import { ZkModule } from 'nestjs-zookeeper';";
const MODULE =
  "ZkModule.forRoot({ connectString: process.env.ZK_CONNECT_STRING ?? 'localhost:2181' })";
const BY_HAND = `Add to the root module: ${IMPORT} and, in its imports, ${MODULE}`;

exports.nestAdd = ({ sourceRoot = 'src' } = {}) => {
  return (tree, { logger }) => {
    const file = `${sourceRoot}/app.module.ts`;
    if (!tree.exists(file)) {
      logger.warn(`There is no ${file}. ${BY_HAND}`);
      return tree;
    }
    const source = tree.read(file).toString('utf8');
    if (/\bZkModule\.forRoot/.test(source)) {
      logger.info(`${file} has a ZkModule already.`);
      return tree;
    }
    const edited = withModule(source);
    if (edited === undefined) {
      logger.warn(`${file} has no @Module({ … }) of its own. ${BY_HAND}`);
      return tree;
    }
    tree.overwrite(file, withImport(edited));
    logger.info(
      'Without a ZooKeeper server, ZkModule.forRoot({ embedded: true }) starts one in the process, for development.',
    );
    return tree;
  };
};

function withModule(source) {
  const module = /@Module\(\s*\{/.exec(source);
  if (!module) return undefined;
  const start = module.index + module[0].length;
  const imports = /[\s,]imports:\s*\[/.exec(source.slice(start));
  if (!imports) return insert(source, start, `\n  imports: [${MODULE}],`);
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
