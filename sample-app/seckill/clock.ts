/** Milliseconds by a monotonic clock that all processes of this machine share. */
export const monotonicNow = () => Number(process.hrtime.bigint()) / 1e6;
