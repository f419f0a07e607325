//! Connections: how many there are, and how long each may take.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::app::App;
use super::patient::Patient;
use super::routes::handle;

/// Bytes of a connection that are held before they are read or sent.
const BUFFER: usize = 64 << 10;
/// Headers of a request.
const HEADERS: usize = 64;

/// Answers connections until `stop` is there; then waits for the answers that are being made, but not for ever, and only until `cut` is
/// there, which is not waited for before.
pub async fn listen(
    app: &Arc<App>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    cut: impl Future<Output = ()>,
) {
    let connections = Arc::new(Semaphore::new(app.settings.limits.connections));
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, for example: what is open has to end first.
                app.log.event("accept", json!({"error": error.to_string()}));
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        match Arc::clone(&connections).try_acquire_owned() {
            Ok(permit) => connect(app, stream, permit, &graceful),
            Err(_) => app.metrics.refused_connections.add(1),
        }
    }
    drop(listener);
    let clock = Instant::now();
    let is_cut = tokio::select! {
        () = graceful.shutdown() => false,
        () = tokio::time::sleep(app.settings.limits.stop) => true,
        () = cut => true,
    };
    if is_cut {
        let answers = app.answers.requests();
        app.log.event(
            "answers cut",
            json!({"answers": answers, "seconds": clock.elapsed().as_secs()}),
        );
    }
}

/// Serves a connection on a task of its own.
fn connect(app: &Arc<App>, stream: TcpStream, permit: OwnedSemaphorePermit, graceful: &GracefulShutdown) {
    let limits = &app.settings.limits;
    // An event is sent as soon as it is there.
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Patient::new(stream, limits.send));
    let own = Arc::clone(app);
    let service = service_fn(move |request| handle(Arc::clone(&own), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.receive)
        .max_buf_size(BUFFER)
        .max_headers(HEADERS)
        .serve_connection(io, service);
    let connection = graceful.watch(connection);
    let metrics = Arc::clone(&app.metrics);
    tokio::spawn(async move {
        metrics.connections.add(1);
        // What goes wrong with a connection is its client's business.
        let _ = connection.await;
        metrics.connections.sub(1);
        drop(permit);
    });
}
