import { test } from 'node:test'
import { visit } from './visit.ts'

/** Set by run.ts. */
const link = process.env['INSTAR_WEB_LINK']

test('each page of a running pipeline, and an action by clicking', { skip: !link && 'no --url' }, () => visit(link!))
