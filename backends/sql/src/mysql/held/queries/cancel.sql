KILL QUERY :session;
