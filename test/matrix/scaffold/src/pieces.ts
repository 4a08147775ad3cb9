/** The number of pieces in stock. The unit test mocks this module. */
export function pieces(): number {
  return 100;
}
