/** Characters (UTF-16) that a comment of feedback may have. */
export const MOST_COMMENT = 8192
