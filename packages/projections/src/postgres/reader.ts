/** The role that reads everything and writes nothing. */
import type { Client } from 'pg'

export const READER = 'instar_reader'

/** Milliseconds that a reader's statement may take. */
export const READER_TIMEOUT = 30_000

const ROLE = (login: 'login' | 'nologin'): string => `
do $$ begin
  if not exists (select from pg_roles where rolname = '${READER}') then
    create role ${READER} ${login};
    grant pg_read_all_data to ${READER};
    alter role ${READER} set default_transaction_read_only = on;
    alter role ${READER} set statement_timeout = ${READER_TIMEOUT};
    alter role ${READER} set idle_in_transaction_session_timeout = '5min';
  end if;
end $$;`

/**
 * In the embedded server, where the role may log in. Temporary tables and large objects are what
 * PostgreSQL otherwise lets anybody write. A person may lift the time limit of a session of their own in
 * psql; `readOnlyQuery` cannot. Flushed to disk, unlike the rows, which are written again when they are lost:
 * a role that a crash took would be offered anew without its login.
 */
export const prepareReader = async (client: Client): Promise<void> => {
  await client.query('set synchronous_commit = on')
  await client.query(`${ROLE('login')}
    alter role ${READER} login;
    revoke temporary on database instar from public;
    revoke execute on function lo_creat(int), lo_create(oid), lo_from_bytea(oid, bytea) from public;`)
}

/** In a server of the user's own, if we may make roles there: what `readOnlyQuery` then steps down to. */
export const offerReader = async (client: Client): Promise<void> => {
  try {
    await client.query(ROLE('nologin'))
  } catch (error) {
    const insufficientPrivilege = '42501'
    if ((error as { code?: string }).code !== insufficientPrivilege) throw error
  }
}
