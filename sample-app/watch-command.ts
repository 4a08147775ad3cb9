/** Returns the command that shows the locks on a ZooKeeper server. In an application it is `npx nestjs-zookeeper watch`. */
export function watchCommand(zookeeper: string): string {
  return `node dist/cli/main.js watch --zookeeper ${zookeeper}`;
}
