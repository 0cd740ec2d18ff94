SELECT pg_notify('lockwright_' || :session::text, '')::text;
