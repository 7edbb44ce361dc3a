"""The resolvers: they turn resources or names into one consistent configuration and its routes."""
