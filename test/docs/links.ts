/** Links, headings and file names of a Markdown page. */

const withoutBlocks = (page: string): string => page.replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '')

/** Targets of `[text](target)`, outside of code. */
export const linksOf = (page: string): string[] =>
  [
    ...withoutBlocks(page)
      .replaceAll(/`[^`\n]*`/g, '')
      .matchAll(/\]\(([^)\s]+)\)/g),
  ].map(([, target]) => target!)

/** Anchors of the headings, by GitHub's rules: lower case, no punctuation, a number after a repeated one. */
export const placesOf = (page: string): Set<string> => {
  const places = new Set<string>()
  for (const [, heading] of withoutBlocks(page).matchAll(/^#{1,6} (.+)$/gm)) {
    const place = heading!
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-')
    let unique = place
    for (let again = 1; places.has(unique); again += 1) unique = `${place}-${again}`
    places.add(unique)
  }
  return places
}

const FOLDERS = /^(?:services|packages|cli|test|docs|models|schemas|skills|bench|migrations)\//

/** Paths from the root that a page names in code, without patterns and anchors. */
export const namedFiles = (page: string): string[] =>
  [...withoutBlocks(page).matchAll(/`([^`\s]+)`/g)]
    .map(([, code]) => code!.replace(/#.*$/, ''))
    .filter((code) => FOLDERS.test(code) && !/[*{}<>…|]/.test(code))
