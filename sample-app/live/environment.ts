import { checkDatabase, checkServers, wholeNumber } from '../seckill/options.js';
import { defaults } from '../shop/settings.js';

/**
 * Checks the variables of `npm start`.
 *
 * @throws UsageError
 */
export function parseEnvironment(variables: NodeJS.ProcessEnv) {
  const { PORT = '3000', HOST = '127.0.0.1', ZOOKEEPER, DATABASE, PAY_WITHIN } = variables;
  if (ZOOKEEPER) checkServers('ZOOKEEPER', ZOOKEEPER);
  // Other values are names of SQLite files.
  if (DATABASE?.includes('://')) checkDatabase('DATABASE', DATABASE);
  return {
    host: HOST,
    port: wholeNumber('PORT', PORT, 0, 65_535),
    zookeeper: ZOOKEEPER || undefined,
    database: DATABASE || undefined,
    payWithin: PAY_WITHIN
      ? wholeNumber('PAY_WITHIN', PAY_WITHIN, 1, 86_400) * 1000
      : defaults.payWithin,
  };
}
