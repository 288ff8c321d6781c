/**
 * A TypeScript file as the rules see it: the code without comments and literals (same length, so that
 * offsets and lines hold), and its imports. TypeScript 7 has no parser for JavaScript to call; this
 * scanner knows strings, templates with `${}`, comments and regular expressions, which is enough.
 */
export type Import = { specifier: string; line: number; typeOnly: boolean }
export type Source = { path: string; text: string; code: string; comments: string; imports: Import[] }

const REGEX_AFTER_WORD = /(?:^|[^\w$.])(?:return|typeof|case|in|of|delete|void|throw|new|else|do|yield|await)\s*$/
const REGEX_AFTER_SIGN = /[([{,;:=!&|?+\-*%~^<>]\s*$/

const blank = (text: string): string => text.replace(/[^\n]/g, ' ')

/** Index behind the quoted text that begins at `start`. */
function endOfQuote(text: string, start: number): number {
  const quote = text[start]
  let at = start + 1
  while (at < text.length && text[at] !== quote && text[at] !== '\n') at += text[at] === '\\' ? 2 : 1
  return Math.min(at + 1, text.length)
}

/** Index behind the regular expression that begins at `start`, flags included. */
function endOfRegex(text: string, start: number): number {
  let at = start + 1
  let inClass = false
  while (at < text.length && text[at] !== '\n' && (inClass || text[at] !== '/')) {
    if (text[at] === '\\') at++
    else if (text[at] === '[') inClass = true
    else if (text[at] === ']') inClass = false
    at++
  }
  at++
  while (/[a-z]/.test(text[at] ?? '')) at++
  return at
}

function mask(text: string): { code: string; comments: string } {
  let code = ''
  let comments = ''
  let at = 0
  /** Depth of braces inside each template substitution that is open. */
  const templates: number[] = []
  const take = (end: number, keep: 'code' | 'comment' | 'nothing'): void => {
    const piece = text.slice(at, end)
    code += keep === 'code' ? piece : blank(piece)
    comments += keep === 'comment' ? piece : blank(piece)
    at = end
  }
  const inTemplate = (): void => {
    let end = at
    while (end < text.length && text[end] !== '`' && !(text[end] === '$' && text[end + 1] === '{'))
      end += text[end] === '\\' ? 2 : 1
    take(Math.min(end, text.length), 'nothing')
    if (text[at] === '`') return take(at + 1, 'code')
    templates.push(0)
    take(Math.min(at + 2, text.length), 'code')
  }
  const ends = (index: number): number => (index === -1 ? text.length : index)
  while (at < text.length) {
    const char = text[at]
    const two = text.slice(at, at + 2)
    const open = templates.length - 1
    if (two === '//') take(ends(text.indexOf('\n', at)), 'comment')
    else if (two === '/*') take(ends(text.indexOf('*/', at)) + 2, 'comment')
    else if (char === "'" || char === '"') {
      const end = endOfQuote(text, at)
      take(at + 1, 'code')
      take(Math.max(at, end - 1), 'nothing')
      take(end, 'code')
    } else if (char === '`') {
      take(at + 1, 'code')
      inTemplate()
    } else if (char === '}' && templates[open] === 0) {
      templates.pop()
      take(at + 1, 'code')
      inTemplate()
    } else if (
      char === '/' &&
      (REGEX_AFTER_SIGN.test(code.slice(-40)) || REGEX_AFTER_WORD.test(code.slice(-40)) || code.trim() === '')
    ) {
      take(endOfRegex(text, at), 'nothing')
    } else {
      if (open >= 0 && char === '{') templates[open]!++
      if (open >= 0 && char === '}') templates[open]!--
      take(at + 1, 'code')
    }
  }
  return { code, comments }
}

const IMPORT = /\b(?:(import|export)\s+(type\s+)?(?:[\w$*{][^'"`;=()]*?\bfrom\s*)?|(?:import|require)\s*\(\s*)(['"`])/g

export function scan(path: string, text: string): Source {
  const { code, comments } = mask(text)
  const imports: Import[] = []
  for (const match of code.matchAll(IMPORT)) {
    const start = match.index + match[0].length
    const end = code.indexOf(match[3]!, start)
    imports.push({
      specifier: text.slice(start, end),
      line: lineAt(text, match.index),
      typeOnly: match[2] !== undefined,
    })
  }
  return { path, text, code, comments, imports }
}

export const lineAt = (text: string, offset: number): number => text.slice(0, offset).split('\n').length
