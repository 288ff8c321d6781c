/**
 * Splits a TypeScript file into code and comments, and lists its imports. TypeScript 7 has no parser that JavaScript
 * can call; this scanner recognizes strings, templates with `${}`, comments and regular expressions.
 */
/** `line` counts from 1. */
export type Import = { specifier: string; line: number; typeOnly: boolean }
/** `code`, `comments`: the text with everything else replaced by spaces, so that offsets and lines are the same. */
export type Source = { path: string; text: string; code: string; comments: string; imports: Import[] }

const REGEX_AFTER_WORD = /(?:^|[^\w$.])(?:return|typeof|case|in|of|delete|void|throw|new|else|do|yield|await)\s*$/
const REGEX_AFTER_SIGN = /[([{,;:=!&|?+\-*%~^<>]\s*$/

const blank = (text: string): string => text.replace(/[^\n]/g, ' ')

/** Index after the string that begins at `start`. */
function endOfQuote(text: string, start: number): number {
  const quote = text[start]
  let at = start + 1
  while (at < text.length && text[at] !== quote && text[at] !== '\n') at += text[at] === '\\' ? 2 : 1
  return Math.min(at + 1, text.length)
}

/** Index after the regular expression that begins at `start`, with its flags. */
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
  /** For each open template substitution, the depth of braces inside it. */
  const templates: number[] = []
  const advance = (end: number, kind: 'code' | 'comment' | 'literal'): void => {
    const part = text.slice(at, end)
    code += kind === 'code' ? part : blank(part)
    comments += kind === 'comment' ? part : blank(part)
    at = end
  }
  const scanTemplate = (): void => {
    let end = at
    while (end < text.length && text[end] !== '`' && !(text[end] === '$' && text[end + 1] === '{'))
      end += text[end] === '\\' ? 2 : 1
    advance(Math.min(end, text.length), 'literal')
    if (text[at] === '`') return advance(at + 1, 'code')
    templates.push(0)
    advance(Math.min(at + 2, text.length), 'code')
  }
  const orEnd = (index: number): number => (index === -1 ? text.length : index)
  while (at < text.length) {
    const char = text[at]
    const two = text.slice(at, at + 2)
    const open = templates.length - 1
    if (two === '//') advance(orEnd(text.indexOf('\n', at)), 'comment')
    else if (two === '/*') advance(orEnd(text.indexOf('*/', at)) + 2, 'comment')
    else if (char === "'" || char === '"') {
      const end = endOfQuote(text, at)
      advance(at + 1, 'code')
      advance(Math.max(at, end - 1), 'literal')
      advance(end, 'code')
    } else if (char === '`') {
      advance(at + 1, 'code')
      scanTemplate()
    } else if (char === '}' && templates[open] === 0) {
      templates.pop()
      advance(at + 1, 'code')
      scanTemplate()
    } else if (
      char === '/' &&
      (REGEX_AFTER_SIGN.test(code.slice(-40)) || REGEX_AFTER_WORD.test(code.slice(-40)) || code.trim() === '')
    ) {
      advance(endOfRegex(text, at), 'literal')
    } else {
      if (open >= 0 && char === '{') templates[open]!++
      if (open >= 0 && char === '}') templates[open]!--
      advance(at + 1, 'code')
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
