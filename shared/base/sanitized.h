/* sanitized -- IS_SANITIZED: whether a sanitizer is compiled in, which takes more memory and time and
 * replaces malloc(). 1 or 0, also in #if. gcc defines a macro, clang a feature. */
#ifndef PSGD_SANITIZED_H
#define PSGD_SANITIZED_H

#if defined __has_feature
#define IS_THREAD_SANITIZED  __has_feature(thread_sanitizer)
#define IS_ADDRESS_SANITIZED __has_feature(address_sanitizer)
#else
#ifdef __SANITIZE_THREAD__
#define IS_THREAD_SANITIZED 1
#else
#define IS_THREAD_SANITIZED 0
#endif
#ifdef __SANITIZE_ADDRESS__
#define IS_ADDRESS_SANITIZED 1
#else
#define IS_ADDRESS_SANITIZED 0
#endif
#endif
#define IS_SANITIZED (IS_ADDRESS_SANITIZED || IS_THREAD_SANITIZED)

#endif
