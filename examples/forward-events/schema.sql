-- The columns that the example expects of the host's outbox. The host owns the table; the broker's own outbox is
-- plexsphere.provisioning_outbox.
CREATE TABLE plexsphere.outbox_events (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The constraint that makes a repeated delivery a no-op.
    event_id     uuid        NOT NULL UNIQUE,
    -- The context of the platform that the event comes from.
    context      text        NOT NULL,
    event_type   text        NOT NULL,
    subject      text        NOT NULL,
    -- `json` keeps the bytes of the event.
    payload      json        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    published_at timestamptz
);
