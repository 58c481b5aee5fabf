mod client;
mod h2_server;
mod hostile;
