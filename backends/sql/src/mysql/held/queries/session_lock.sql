-- Requests the lock only if the mark was acquired. Returns -1 if the mark was refused, NULL if the
-- lock was, and otherwise the fence, or 0 on MySQL, which has no sequences. RELEASE_LOCK releases
-- the mark, and its factor makes NULL.
SELECT CAST(IF(GET_LOCK(:mark, 0) <=> 1,
               IF(GET_LOCK(:key, :slice_s) <=> 1,
                  /*M!100300 NEXTVAL({hold_fence}) + */ 0,
                  NULLIF(0 * RELEASE_LOCK(:mark), 0)),
               -1) AS SIGNED);
