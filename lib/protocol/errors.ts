/** The bytes on the wire are not what ZooKeeper's protocol allows at this place. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}
