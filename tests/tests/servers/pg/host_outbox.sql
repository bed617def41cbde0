-- What a host adds to its outbox, and the events of its other contexts.
CREATE INDEX outbox_events_waiting_idx ON plexsphere.outbox_events (id) WHERE published_at IS NULL;

CREATE FUNCTION plexsphere.outbox_events_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('outbox_events', NEW.id::text);
    RETURN NULL;
END
$$;

CREATE TRIGGER outbox_events_notify AFTER INSERT ON plexsphere.outbox_events
    FOR EACH ROW EXECUTE FUNCTION plexsphere.outbox_events_notify();

INSERT INTO plexsphere.outbox_events (event_id, context, event_type, subject, payload, published_at) VALUES
    (gen_random_uuid(), 'tenancy', 'tenancy.ProjectCreated', 'project-1', '{"a":  1}', now()),
    (gen_random_uuid(), 'identity', 'identity.TokenIssued', 'token-1', '{}', NULL);
