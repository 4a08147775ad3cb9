import { checkDatabase, checkServers, wholeNumber } from '../seckill/options.js';
import { defaults } from '../shop/settings.js';

/**
 * Checks the variables of `npm start`.
 *
 * @throws UsageError
 */
export function parseEnvironment(variables: NodeJS.ProcessEnv) {
  const { PORT = '3000', HOST = '127.0.0.1', DATABASE, PAY_WITHIN } = variables;
  // ZOOKEEPER is the name in scripts that were written before.
  const name = variables.ZK_CONNECT_STRING ? 'ZK_CONNECT_STRING' : 'ZOOKEEPER';
  const zookeeper = variables[name];
  if (zookeeper) checkServers(name, zookeeper);
  // Other values are names of SQLite files.
  if (DATABASE?.includes('://')) checkDatabase('DATABASE', DATABASE);
  return {
    host: HOST,
    port: wholeNumber('PORT', PORT, 0, 65_535),
    zookeeper: zookeeper || undefined,
    database: DATABASE || undefined,
    payWithin: PAY_WITHIN
      ? wholeNumber('PAY_WITHIN', PAY_WITHIN, 1, 86_400) * 1000
      : defaults.payWithin,
  };
}
