export function inspect(value: unknown): string {
  return String(value);
}

const isTypedArray = (value: unknown) => ArrayBuffer.isView(value) && !(value instanceof DataView);
const isAnyArrayBuffer = (value: unknown) => value instanceof ArrayBuffer;

const isNativeError = (value: unknown) => value instanceof Error;

export const types = { isTypedArray, isAnyArrayBuffer, isNativeError };

export const isUint8Array = (value: unknown) => value instanceof Uint8Array;
