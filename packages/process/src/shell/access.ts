/** Security and credentials for Kafka and the schema registry, from the settings and the files that they name. */
import { InstarError } from '@instar/events'
import type { RegistryAccess, Security } from '@instar/log/kafka/index'
import { readRegularFile } from '@instar/events/regular-file'
import type { Settings } from '../settings.ts'

/** Undefined for a cluster without TLS and SASL. Throws `bad_request` for a file that cannot be read. */
export const kafkaSecurity = ({ kafka }: Pick<Settings, 'kafka'>): Security | undefined => {
  const { ssl, ca, cert, key, sasl } = kafka
  if (!ssl && !sasl) return undefined
  return {
    ...(ssl
      ? {
          tls: {
            ...text('ca', 'INSTAR_KAFKA_CA', ca),
            ...text('cert', 'INSTAR_KAFKA_CERT', cert),
            ...text('key', 'INSTAR_KAFKA_KEY', key),
          },
        }
      : {}),
    ...(sasl
      ? {
          sasl: {
            mechanism: sasl.mechanism,
            username: sasl.username,
            password: sasl.password ?? secret('INSTAR_KAFKA_PASSWORD_FILE', sasl.passwordFile!),
          },
        }
      : {}),
  }
}

/**
 * Address and credentials of the schema registry, which records on Kafka require. Throws `bad_request` if no registry
 * is configured, if its URL contains a user or a password, or if a file cannot be read.
 */
export const registryOf = ({
  registry,
  registryUser,
  log,
}: Pick<Settings, 'registry' | 'registryUser' | 'log'>): RegistryAccess => {
  if (registry === null)
    throw new InstarError(
      'bad_request',
      `INSTAR_LOG=${log} requires INSTAR_REGISTRY, the URL of a Confluent-compatible schema registry.`,
      { field: 'INSTAR_REGISTRY' },
    )
  const { username, password, passwordFile, ca } = registryUser
  const url = new URL(registry)
  if (url.username !== '' || url.password !== '')
    throw new InstarError(
      'bad_request',
      'INSTAR_REGISTRY contains a user or a password, and messages show this URL. Set INSTAR_REGISTRY_USERNAME and INSTAR_REGISTRY_PASSWORD instead.',
      { field: 'INSTAR_REGISTRY' },
    )
  return {
    url: registry,
    ...text('ca', 'INSTAR_REGISTRY_CA', ca),
    ...(username === null
      ? {}
      : { username, password: password ?? secret('INSTAR_REGISTRY_PASSWORD_FILE', passwordFile!) }),
  }
}

const text = <K extends string>(name: K, variable: string, file: string | null): Partial<Record<K, string>> =>
  file === null ? {} : ({ [name]: read(variable, file) } as Record<K, string>)

/** The content of the file without one line break at its end. */
const secret = (variable: string, file: string): string => read(variable, file).replace(/\r?\n$/, '')

/** Of a password, or of certificates. */
const MOST_BYTES = 1 << 20

const read = (variable: string, file: string): string => {
  try {
    return readRegularFile(file, MOST_BYTES).toString('utf8')
  } catch (cause) {
    throw new InstarError(
      'bad_request',
      `${variable}=${file} cannot be read: ${(cause as Error).message}`,
      { field: variable },
      { cause },
    )
  }
}
