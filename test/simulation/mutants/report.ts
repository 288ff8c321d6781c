/** Mutants as rows of the table in docs/simulation.md. */
import type { Killed } from './kill.ts'

/** The problem without the ids of its schedule. */
const inShort = (problem: string): string => {
  const said = problem
    .replace(/\s+/g, ' ')
    .replace(/\b(?:[0-9a-f]{8,64}|c\d)\.[0-9a-f]{32}(?:,\S*)?/g, 'a turn')
    .replace(/\b[0-9a-f]{8,64}\b/g, '…')
    .replace(/ as (?:\[|").*$/, ' otherwise than the log')
  return (said.length > 90 ? `${said.slice(0, 90)}…` : said).replaceAll('|', '/')
}

export const rowOf = ({ mutant, schedules, problem }: Killed): string => {
  const place = mutant.file
    .replace(/^(?:services|packages)\//, '')
    .replace(/\/src\/(?:core\/)?/, '/')
    .replace(/\.ts$/, '')
  return `| \`${mutant.name}\` (${place}) | ${mutant.breaks} | ${schedules === null ? '**not found**' : inShort(problem)} | ${schedules ?? '–'} |`
}

/** The names in the first column of the table. */
export const namesIn = (markdown: string): string[] => [...markdown.matchAll(/^\| `(\w+)` \(/gm)].map((row) => row[1]!)
