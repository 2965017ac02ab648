/** New identifiers, from a cryptographic source (P16). */
export type IdSource = {
  /** 26 Crockford base-32 characters, ordered by time. */
  ulid(): string;
  /** `length` random lower-case base-36 characters, for keys that we suggest and for marks that must differ. */
  nonce(length: number): string;
};
