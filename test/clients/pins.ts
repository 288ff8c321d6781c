/** The versions of the client libraries, as package.json pins them. */
import { readFileSync } from 'node:fs'

const { dependencies } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8')) as {
  dependencies: Record<string, string>
}

export const pinned = (name: string): string => `${name} ${dependencies[name]}`
