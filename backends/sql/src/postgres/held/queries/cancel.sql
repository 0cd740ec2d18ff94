SELECT pg_cancel_backend(:session::int);
