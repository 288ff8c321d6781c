/** The schema registry: what was found, and what to do about it. */
import { COMPATIBILITY_LEVEL, type RegistryFound } from '@instar/log/kafka/index'
import { counted, fine, wrong, type Finding } from './finding.ts'

/** `url`: INSTAR_REGISTRY. */
export const registryFound = ({ subjects, numbers }: RegistryFound, url: string): Finding[] => {
  const findings: Finding[] = []
  const listed = (rows: readonly { id: number; schema: string }[]): string =>
    rows.map(({ id, schema }) => `${id} (${schema})`).join(', ')
  if (numbers.other.length > 0)
    findings.push(
      wrong(
        `it has other schemas than the log under ${listed(numbers.other)}`,
        'Check INSTAR_REGISTRY: this is another registry than the log was written with. If its storage was lost and filled again, empty it and run `instar setup`, which fills it from the log.',
      ),
    )
  if (numbers.lost.length > 0)
    findings.push(
      wrong(
        `it has lost schemas of the log: ${listed(numbers.lost)}`,
        'Run `instar setup`, which fills it from the log under the same numbers.',
      ),
    )
  const missing = subjects.flatMap((subject) => subject.missing)
  if (missing.length > 0)
    findings.push(
      wrong(
        `it does not hold ${missing.length > 6 ? `${missing.slice(0, 6).join(', ')} and ${missing.length - 6} more` : missing.join(', ')} as this build has them`,
        subjects.every((subject) => subject.missing.length > 0)
          ? 'Run `instar setup`. If the log holds records already, this is another registry than they were written with: their schema ids mean something else here. Check INSTAR_REGISTRY, restore its storage.'
          : 'Run `instar setup` of this build; it is safe to run again.',
      ),
    )
  for (const { subject, compatibility, missing: ours } of subjects) {
    if (compatibility === COMPATIBILITY_LEVEL || ours.length > 0) continue
    findings.push(
      wrong(
        `${subject}: compatibility is ${compatibility ?? 'not set'}, should be ${COMPATIBILITY_LEVEL}: a schema that cannot read older records would be taken`,
        `curl -X PUT -H 'content-type: application/vnd.schemaregistry.v1+json' -d '{"compatibility":"${COMPATIBILITY_LEVEL}"}' ${url.replace(/\/$/, '')}/config/${subject}`,
      ),
    )
  }
  return findings.length > 0
    ? findings
    : [fine(`${url}: ${counted(subjects.length, 'subject')}, each holds our schemas and is ${COMPATIBILITY_LEVEL}`)]
}
