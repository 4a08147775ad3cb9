import type { Acl } from '../protocol/index.js';
import { OPEN_ACL, READ_ACL } from './acl.js';
import { newZnode, type Znode } from './znode.js';

/** What every ZooKeeper has from the start. */
export function initialNodes(): Map<string, Znode> {
  const never = { zxid: 0, time: 0 };
  const make = (acl: readonly Acl[]) => newZnode({ data: Buffer.alloc(0), acl }, never);
  const root = make(OPEN_ACL);
  const system = make(OPEN_ACL);
  const config = make(READ_ACL);
  config.aversion = -1;
  root.children.add('zookeeper');
  system.children.add('config').add('quota');
  return new Map([
    // The root answers to the empty path too, as the real one does.
    ['', root],
    ['/', root],
    ['/zookeeper', system],
    ['/zookeeper/quota', make(OPEN_ACL)],
    ['/zookeeper/config', config],
  ]);
}
