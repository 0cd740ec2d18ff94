//! A master that Sentinels choose: finding it, and what becomes of holds when it changes.
