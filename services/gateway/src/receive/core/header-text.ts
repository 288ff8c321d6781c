/** What a client wrote, as it may stand in a header of the answer: other characters are `?`, and it ends somewhere. */
export const headerText = (text: string): string => text.slice(0, 1000).replace(/[^\x20-\x7e]/g, '?')
