/** Makes a client's text safe for a response header: replaces other characters with `?` and limits the length. */
export const headerText = (text: string): string => text.slice(0, 1000).replace(/[^\x20-\x7e]/g, '?')
