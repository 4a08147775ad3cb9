// Two textbook locks with the herd effect, for bench:herd. A release wakes all n waiters, n - 1 of them in vain. They only
// wait, acquire and release: they do not survive lost replies or sessions, and have no fencing tokens.
import { NodeError } from 'nestjs-zookeeper/recipes';

/**
 * The lock on a single ephemeral znode. The client that creates the znode holds the lock. Every other client watches the
 * znode, and tries to create it again when it is deleted.
 */
export class SingleNodeLock {
  constructor(client, path) {
    this.client = client;
    this.path = path;
  }

  async acquire({ signal }) {
    const { client, path } = this;
    const session = await client.session();
    await client.ensureContainers(path.slice(0, path.lastIndexOf('/')));
    for (;;) {
      signal.throwIfAborted();
      try {
        await session.create(path, '', { mode: 'ephemeral' });
        return { release: () => session.delete(path) };
      } catch (error) {
        if (!isCode(error, 'NODE_EXISTS')) throw error;
      }
      try {
        const { watch } = await session.get(path, { watch: true });
        await watch.fired;
      } catch (error) {
        // The holder has released the lock in the meantime.
        if (!isCode(error, 'NO_NODE')) throw error;
      }
    }
  }
}

/**
 * The lock on sequential znodes whose waiters watch the children of the parent. The client with the lowest sequence number
 * holds the lock. Every arrival wakes the waiters too.
 */
export class ChildWatchLock {
  constructor(client, path) {
    this.client = client;
    this.path = path;
  }

  async acquire({ signal }) {
    const { client, path } = this;
    const session = await client.session();
    await client.ensureContainers(path);
    const own = await session.create(`${path}/lock-`, '', { mode: 'ephemeral-sequential' });
    for (;;) {
      signal.throwIfAborted();
      const { children, watch } = await session.children(path, { watch: true });
      if (own.endsWith(`/${children.sort()[0]}`)) {
        watch.remove();
        return { release: () => session.delete(own) };
      }
      await watch.fired;
    }
  }
}

function isCode(error, code) {
  return error instanceof NodeError && error.code === code;
}
