import { randomUUID } from 'node:crypto';
import { NotAuthorizedError } from '../../client/index.js';
import type { Address } from '../../client/transport/transport.js';
import { failureOf, FLAGS, isCode, ProbeSession, type Target } from './probe-session.js';
import type { Check } from './report.js';
import type { UsableServer } from './servers.js';

/** A directory for the znodes of the probes. An ephemeral child keeps it from being deleted as an empty container. */
export interface ProbeDirectory {
  readonly session: ProbeSession;
  readonly directory: string;
  /** The ephemeral child. */
  readonly ephemeralChild: string;
}

/** The names of the znodes that this command creates in an existing one begin with it. */
const PREFIX = 'nestjs-zookeeper-doctor-';

interface Rights {
  readonly check: Check;
  /** The existing znode in which the probes may create and delete. */
  readonly parent: string | undefined;
}

/**
 * Finds out which rights the credentials have in the namespace, or in its closest ancestor that exists. The probe is
 * ephemeral: if it may not be deleted, it vanishes with the session.
 */
export async function checkRights(
  target: Target,
  session: ProbeSession,
  namespace: string,
): Promise<Rights> {
  const parent = await closestTo(session, namespace);
  const missing = await missingRights(session, parent);
  const subject = namespace || '/';
  const place = parent === subject ? 'there' : `in ${parent}, where it will be created`;
  const data = { znode: parent, exists: parent === subject, missing };
  if (missing.length === 0 && (await othersMayCreate(target, session.address, parent))) {
    return {
      check: {
        check: 'rights',
        subject,
        status: 'limit',
        found: `clients without the credentials may create in ${parent} too`,
        advice: `create ${subject} with an ACL that admits only the credentials, or set this ACL if it exists`,
        data,
      },
      parent,
    };
  }
  if (missing.length === 0) {
    const found = `the credentials may read, create and delete ${place}`;
    return { check: { check: 'rights', subject, status: 'ok', found, data }, parent };
  }
  return {
    check: {
      check: 'rights',
      subject,
      // Recipes create directories there, and need no more.
      status: missing.includes('create') ? 'unsafe' : 'limit',
      found: `the ACL of ${parent} denies the right to ${missing.join(' and to ')}`,
      advice: `grant ${missing.map((right) => `${right[0]} (${right})`).join(', ')} in the ACL of ${parent}, or pass credentials that have it with ZOOKEEPER_AUTH`,
      data,
    },
    parent: missing.includes('create') || missing.includes('delete') ? undefined : parent,
  };
}

async function missingRights(session: ProbeSession, parent: string): Promise<string[]> {
  const missing: string[] = [];
  if (!(await allows(() => session.children(parent)))) missing.push('read');
  const probe = child(parent, `${PREFIX}${randomUUID()}`);
  if (!(await allows(() => session.create(probe, FLAGS.ephemeral)))) missing.push('create');
  else if (!(await allows(() => session.delete(probe)))) missing.push('delete');
  return missing;
}

/** Resolves to whether credentials are used, and clients without them may create as well. */
async function othersMayCreate(target: Target, address: Address, parent: string): Promise<boolean> {
  if (target.authInfo.length === 0) return false;
  const stranger = await ProbeSession.open({ ...target, authInfo: [] }, address);
  try {
    return !(await missingRights(stranger, parent)).includes('create');
  } finally {
    await stranger.close();
  }
}

/** Returns the deepest znode that exists on a path. */
async function closestTo(session: ProbeSession, path: string): Promise<string> {
  for (let at = path; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) {
    if (await session.exists(at)) return at;
  }
  return '/';
}

/** Resolves to whether the ACL allows a request. */
async function allows(request: () => Promise<unknown>): Promise<boolean> {
  try {
    await request();
    return true;
  } catch (error) {
    if (error instanceof NotAuthorizedError) return false;
    throw error;
  }
}

/** Returns the path of a new directory. */
export function newDirectoryIn(parent: string): string {
  return child(parent, `${PREFIX}${randomUUID()}`);
}

/** Creates the ephemeral child of the directory, which exists. */
export async function prepareDirectory(
  session: ProbeSession,
  directory: string,
): Promise<ProbeDirectory> {
  const ephemeralChild = `${directory}/ephemeral`;
  await session.create(ephemeralChild, FLAGS.ephemeral);
  return { session, directory, ephemeralChild };
}

/**
 * Deletes the directory in a session of its own, on the first server that is left. Resolves to the reason of a failure.
 *
 * @param servers of one ensemble: of another one, a missing directory would count as deleted
 */
export async function deleteDirectory(
  target: Target,
  servers: readonly UsableServer[],
  directory: string,
): Promise<string | undefined> {
  const failures: string[] = [];
  for (const { address } of servers) {
    try {
      const session = await ProbeSession.open(target, address);
      try {
        await session.sync('/');
        for (const name of await listed(session, directory)) {
          await gone(() => session.delete(`${directory}/${name}`));
        }
        await gone(() => session.delete(directory));
        return undefined;
      } finally {
        await session.close();
      }
    } catch (error) {
      failures.push(failureOf(error));
    }
  }
  return failures.join('; ');
}

async function listed(session: ProbeSession, directory: string): Promise<string[]> {
  try {
    return await session.children(directory);
  } catch (error) {
    if (isCode(error, 'NO_NODE')) return [];
    throw error;
  }
}

async function gone(remove: () => Promise<void>): Promise<void> {
  try {
    await remove();
  } catch (error) {
    if (!isCode(error, 'NO_NODE')) throw error;
  }
}

function child(parent: string, name: string): string {
  return parent === '/' ? `/${name}` : `${parent}/${name}`;
}
