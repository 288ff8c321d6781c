/** Certificates for one run, by the `openssl` program: an authority, a broker called `localhost`, and a client. */
import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** PEM files. `broker`: key and certificate in one, as Kafka requires. */
export type Certificates = {
  ca: string
  broker: string
  brokerKey: string
  brokerCert: string
  clientKey: string
  clientCert: string
}

export const makeCertificates = async (folder: string): Promise<Certificates> => {
  await mkdir(folder, { recursive: true })
  const file = (name: string): string => join(folder, name)
  const openssl = (...args: string[]) => run('openssl', args, { cwd: folder })
  const key = ['-newkey', 'rsa:2048', '-nodes']
  await openssl(
    'req',
    '-x509',
    ...key,
    '-days',
    '2',
    '-subj',
    '/CN=Instar test authority',
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
  )
  await writeFile(file('localhost.ext'), 'subjectAltName=DNS:localhost')
  for (const [name, ...extensions] of [['broker', '-extfile', 'localhost.ext'], ['client']] as const) {
    await openssl('req', ...key, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`)
    await openssl(
      'x509',
      '-req',
      '-in',
      `${name}.csr`,
      '-CA',
      'ca.pem',
      '-CAkey',
      'ca.key',
      '-CAcreateserial',
      '-days',
      '2',
      ...extensions,
      '-out',
      `${name}.pem`,
    )
  }
  await writeFile(
    file('broker-both.pem'),
    `${await readFile(file('broker.key'), 'utf8')}${await readFile(file('broker.pem'), 'utf8')}`,
  )
  return {
    ca: file('ca.pem'),
    broker: file('broker-both.pem'),
    brokerKey: file('broker.key'),
    brokerCert: file('broker.pem'),
    clientKey: file('client.key'),
    clientCert: file('client.pem'),
  }
}
