export * from './codec.js';
export * from './codes.js';
export { ProtocolError } from './errors.js';
export { FrameSplitter, MAX_FRAME_LENGTH } from './frame-splitter.js';
export { Reader } from './reader.js';
export * from './records.js';
export { Writer } from './writer.js';
