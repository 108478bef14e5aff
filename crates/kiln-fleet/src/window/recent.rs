//! What Slurm was asked for a page: by one at a time, and not again for a while. The accounting is a database that others need, too.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kiln_web::Problem;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long somebody waits for those who asked before.
const PATIENCE: Duration = Duration::from_secs(30);
/// A question that failed is not asked again for so long: what does not answer is not helped by more questions.
const AFTER_FAILURE: Duration = Duration::from_secs(15);
/// So many answers are kept.
const MOST: usize = 64;

type Answer<V> = Result<Arc<V>, Problem>;
/// Each with when it is to be asked again.
type Answers<K, V> = HashMap<K, (Instant, Answer<V>)>;

/// Answers by question, for a while.
pub struct Recent<K, V> {
    life: Duration,
    kept: Arc<Mutex<Answers<K, V>>>,
    turn: Arc<Semaphore>,
}

impl<K: Eq + Hash + Clone + Send + 'static, V: Send + Sync + 'static> Recent<K, V> {
    /// With so long a life of an answer.
    pub fn new(life: Duration) -> Self {
        Recent { life, kept: Arc::default(), turn: Arc::new(Semaphore::new(1)) }
    }

    fn known(&self, question: &K) -> Option<Answer<V>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, answer) = kept.get(question)?;
        (*until > Instant::now()).then(|| answer.clone())
    }

    /// The answer that is known, or a new one. Whoever goes away meanwhile leaves it to those who come.
    pub async fn get<F>(&self, question: K, ask: F) -> Answer<V>
    where
        F: Future<Output = Result<V, Problem>> + Send + 'static,
    {
        if let Some(answer) = self.known(&question) {
            return answer;
        }
        let Ok(Ok(turn)) = tokio::time::timeout(PATIENCE, self.turn.clone().acquire_owned()).await else {
            return Err(Problem::Unavailable("Slurm is busy with what others have asked: try again".into()));
        };
        // It may have been answered while this one waited.
        if let Some(answer) = self.known(&question) {
            return answer;
        }
        let (kept, life) = (self.kept.clone(), self.life);
        let asked = tokio::spawn(async move {
            let answer = ask.await.map(Arc::new);
            let now = Instant::now();
            let until = now + if answer.is_ok() { life } else { AFTER_FAILURE };
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.retain(|_, (until, _)| *until > now);
            if kept.len() >= MOST {
                kept.clear();
            }
            kept.insert(question, (until, answer.clone()));
            drop(turn);
            answer
        });
        asked.await.unwrap_or_else(|_| Err(Problem::Unavailable("kilnd is being stopped".into())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn question(
        count: &Arc<AtomicUsize>,
        answer: Result<u32, Problem>,
    ) -> impl Future<Output = Result<u32, Problem>> + Send + 'static {
        let count = count.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            count.fetch_add(1, Ordering::Relaxed);
            answer
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_asked_once_for_all_who_ask_it() {
        let recent = Recent::new(Duration::from_secs(30));
        let count = Arc::new(AtomicUsize::new(0));
        let (one, other) =
            tokio::join!(recent.get("a", question(&count, Ok(1))), recent.get("a", question(&count, Ok(2))));
        assert_eq!((one, other), (Ok(Arc::new(1)), Ok(Arc::new(1))));
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert_eq!(recent.get("a", question(&count, Ok(3))).await, Ok(Arc::new(3)));
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_outlives_whoever_asked() {
        let recent = Recent::new(Duration::from_secs(30));
        let count = Arc::new(AtomicUsize::new(0));
        let gone = recent.get("a", question(&count, Ok(1)));
        assert!(tokio::time::timeout(Duration::from_millis(500), gone).await.is_err());
        assert_eq!(recent.get("a", question(&count, Ok(2))).await, Ok(Arc::new(1)));
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_answer_is_left_alone_for_a_while() {
        let recent = Recent::new(Duration::from_secs(30));
        let count = Arc::new(AtomicUsize::new(0));
        let failure = || Err(Problem::Unavailable("slurmdbd is down".into()));
        for _ in 0..3 {
            assert!(recent.get("a", question(&count, failure())).await.is_err());
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
        tokio::time::sleep(AFTER_FAILURE).await;
        assert_eq!(recent.get("a", question(&count, Ok(1))).await, Ok(Arc::new(1)));
    }
}
