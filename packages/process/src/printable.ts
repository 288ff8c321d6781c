/**
 * Text for a terminal or a log that a person reads. Names, labels, reasons and errors may be others' text, and a control
 * character in it would be obeyed: it could clear the screen, rename the window, or make a line that nobody wrote. Everything
 * that a process prints goes through one of these.
 */

/** Controls (C0, DEL, C1), separators of lines, and marks and overrides of the direction of text. */
const CONTROLS = /[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/gu

const codeOf = (control: string): number => control.charCodeAt(0)
const escaped = (control: string): string => {
  if (control === '\n') return '\\n'
  if (control === '\t') return '\\t'
  const digits = codeOf(control).toString(16)
  return digits.length > 2 ? `\\u${digits.padStart(4, '0')}` : `\\x${digits.padStart(2, '0')}`
}

/** One line: line breaks are escaped, too. For a name or another field. */
export const escapeControls = (text: string): string => text.replace(CONTROLS, escaped)

/** Keeps line breaks and tabs. For all that a command prints. */
export const printable = (text: string): string =>
  text.replace(CONTROLS, (control) => (control === '\n' || control === '\t' ? control : escaped(control)))

/** Keeps line breaks, but no line after the first begins as an entry of a log does. */
export const logEntry = (text: string): string => printable(text).replaceAll('\n', '\n    ')

/** The same JSON, on as many lines: JSON escapes C0 alone by itself. */
export const printableJson = (json: string): string =>
  json.replace(CONTROLS, (control) =>
    control === '\n' ? control : `\\u${codeOf(control).toString(16).padStart(4, '0')}`,
  )
