/** Maximum length of a feedback comment in UTF-16 units. */
export const MOST_COMMENT = 8192
