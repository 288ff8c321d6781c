/**
 * Generates the part of docs/settings.md on the settings file from the schemas of the services and the table of defaults by
 * size: `node bootstrap.cjs test/docs/learning-settings.ts`.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DEFAULTS_BY_SIZE, fieldsOf, MODEL_SIZES, type Section } from '@instar/process'
import { SECTIONS } from '../../cli/src/learning-settings.ts'
import { ROOT } from '../../tools/tree.ts'

const SETTINGS_PAGE = join(ROOT, 'docs', 'settings.md')
const BEGIN = '<!-- generated: node bootstrap.cjs test/docs/learning-settings.ts -->\n'
const END = '<!-- end of the generated part -->\n'

/** Pipes would end a table cell. */
const cell = (text: string): string => text.replaceAll('|', '\\|')
const code = (value: unknown): string => (value === undefined ? 'none' : `\`${JSON.stringify(value)}\``)

const sectionText = (section: Section): string =>
  [
    `### ${section.name}\n`,
    '| setting | default | value | |',
    '|---|---|---|---|',
    ...fieldsOf(section).map(
      ({ name, default: value, expected, description }) =>
        `| \`${name}\` | ${code(value)} | ${cell(expected)} | ${cell(description)} |`,
    ),
    '',
  ].join('\n')

const sizeText = (): string =>
  [
    '### Defaults by size of the model\n',
    MODEL_SIZES.map(({ name, parametersMax }) =>
      parametersMax === null ? `\`${name}\` beyond.` : `\`${name}\`: up to ${parametersMax / 1e6} million parameters;`,
    ).join(' '),
    '`–`: the default above, which was tuned on the model that ships (1.6 million).\n',
    `| setting | ${MODEL_SIZES.map(({ name }) => name).join(' | ')} | evidence |`,
    `|---|${MODEL_SIZES.map(() => '---|').join('')}---|`,
    ...DEFAULTS_BY_SIZE.map(
      (row) =>
        `| \`${row.setting}\` | ${MODEL_SIZES.map(({ name }) => row[name] ?? '–').join(' | ')} | ${cell(row.evidence)} |`,
    ),
    '',
  ].join('\n')

export const generatedPart = (): string => [...SECTIONS.map(sectionText), sizeText()].join('\n')

const startOf = (page: string): number => page.indexOf(BEGIN) + BEGIN.length

/** The part between the marks. */
export const partOf = (page: string): string => page.slice(startOf(page), page.indexOf(END))

if (process.argv[1] === import.meta.filename) {
  const page = readFileSync(SETTINGS_PAGE, 'utf8')
  writeFileSync(SETTINGS_PAGE, page.slice(0, startOf(page)) + generatedPart() + page.slice(page.indexOf(END)))
}
