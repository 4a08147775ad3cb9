import { existsSync } from 'node:fs';

/** Of Debian's packages zookeeper and libcurator-recipes-java. */
const DIRECTORY = '/usr/share/java';
const jar = (name) => `${DIRECTORY}/${name}.jar`;

export const ZOOKEEPER_JARS = ['zookeeper', 'zookeeper-jute'].map(jar);
/** What a program needs that uses Curator. */
export const CURATOR_JARS = [
  ...['curator-client', 'curator-framework', 'curator-recipes'].map(jar),
  ...ZOOKEEPER_JARS,
  ...['guava', 'slf4j-api', 'slf4j-nop'].map(jar),
];
/** A server also needs what it logs by. */
export const SERVER_CLASS_PATH = [...ZOOKEEPER_JARS, `${DIRECTORY}/*`].join(':');

/** The first one that is not on this machine. */
export function missingJar(jars) {
  return jars.find((file) => !existsSync(file));
}
