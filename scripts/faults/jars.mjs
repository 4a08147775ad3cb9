// JavaScript with types in comments: scripts/test.mjs needs this file before anything is compiled.
import { existsSync } from 'node:fs';

/** The directory of Debian's packages zookeeper and libcurator-recipes-java. */
const DIRECTORY = '/usr/share/java';

/** @param {string} name */
const jar = (name) => `${DIRECTORY}/${name}.jar`;

export const ZOOKEEPER_JARS = ['zookeeper', 'zookeeper-jute'].map(jar);

/** The class path of a program that uses Curator. */
export const CURATOR_JARS = [
  ...['curator-client', 'curator-framework', 'curator-recipes'].map(jar),
  ...ZOOKEEPER_JARS,
  ...['guava', 'slf4j-api', 'slf4j-nop'].map(jar),
];

/** A server needs its logging libraries as well. */
export const SERVER_CLASS_PATH = [...ZOOKEEPER_JARS, `${DIRECTORY}/*`].join(':');

/**
 * Returns the files that this machine does not have.
 *
 * @param {readonly string[]} jars
 */
export function missingJars(jars) {
  return jars.filter((file) => !existsSync(file));
}
