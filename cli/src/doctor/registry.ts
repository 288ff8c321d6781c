/** Findings about the schema registry. */
import { COMPATIBILITY_LEVEL, type RegistryState } from '@instar/log/kafka/index'
import { countText, ok, wrong, type Finding } from './finding.ts'

const MAX_LISTED = 6

/** `url`: INSTAR_REGISTRY. */
export const registryFindings = ({ subjects, numbers }: RegistryState, url: string): Finding[] => {
  const findings: Finding[] = []
  const list = (rows: readonly { id: number; schema: string }[]): string =>
    rows.map(({ id, schema }) => `${id} (${schema})`).join(', ')
  if (numbers.other.length > 0)
    findings.push(
      wrong(
        `it has other schemas than the log under the ids ${list(numbers.other)}`,
        'Check INSTAR_REGISTRY: this is not the registry that the log was written with. If its storage was lost and filled again, empty it and run `instar setup`, which fills it from the log.',
      ),
    )
  if (numbers.lost.length > 0)
    findings.push(
      wrong(
        `it has lost schemas of the log: ${list(numbers.lost)}`,
        'Run `instar setup`, which registers them from the log under the same ids.',
      ),
    )
  const missing = subjects.flatMap((subject) => subject.missing)
  if (missing.length > 0) {
    const more = missing.length > MAX_LISTED ? ` and ${missing.length - MAX_LISTED} more` : ''
    findings.push(
      wrong(
        `it does not hold the schemas ${missing.slice(0, MAX_LISTED).join(', ')}${more} of this build`,
        subjects.every((subject) => subject.missing.length > 0)
          ? 'Run `instar setup`. If the log holds records already, this is not the registry that they were written with, and their schema ids have another meaning here: check INSTAR_REGISTRY, restore its storage.'
          : 'Run `instar setup` of this build; it is safe to run again.',
      ),
    )
  }
  for (const { subject, compatibility, missing: missingSchemas } of subjects) {
    if (compatibility === COMPATIBILITY_LEVEL || missingSchemas.length > 0) continue
    findings.push(
      wrong(
        `${subject}: compatibility is ${compatibility ?? 'not set'}, should be ${COMPATIBILITY_LEVEL}: the registry would accept a schema that cannot read older records`,
        `curl -X PUT -H 'content-type: application/vnd.schemaregistry.v1+json' -d '{"compatibility":"${COMPATIBILITY_LEVEL}"}' ${url.replace(/\/$/, '')}/config/${subject}`,
      ),
    )
  }
  return findings.length > 0
    ? findings
    : [
        ok(
          `${url}: ${countText(subjects.length, 'subject')}, each with the schemas of this build and ${COMPATIBILITY_LEVEL} compatibility`,
        ),
      ]
}
