export * from './codes.js';
export { FrameSplitter, MAX_FRAME_LENGTH, ProtocolError, Reader, Writer } from './jute.js';
export * from './records.js';
export { sessionPassword } from './session-password.js';
