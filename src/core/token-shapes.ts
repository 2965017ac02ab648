/**
 * What tokens of our own look like, so that one that nobody knows in clear any more is found in a text all the same.
 *
 * Invariant: whatever makes tokens makes ones of these shapes, and nothing else that we issue looks like them.
 */

/**
 * Callers' tokens (`dmcp_` and 32 random bytes) and children's (`dct_`, the attempt, and a signature), in base64url. Nothing
 * has to stand in front: in `"\ndmcp_…"` as JSON writes it the character before is a letter. Takes linear time for any text.
 */
export const TOKEN_SHAPES: RegExp = /dmcp_[\w-]{20,}|dct_dt_[0-9A-Z]{26}\.a[0-9]{1,9}\.[\w-]{16,}/g;
