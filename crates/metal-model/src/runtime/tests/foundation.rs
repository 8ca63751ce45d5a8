//! Collections, errors and the process, through objc2-foundation's own interface. In a build with debug assertions every
//! send compares the encodings of what it sends with those of the method.

use std::panic::AssertUnwindSafe;

use objc2::{
    AllocAnyThread,
    rc::{Retained, autoreleasepool},
    runtime::{AnyObject, NSObject, NSObjectProtocol},
};
use objc2_foundation::{
    NSArray, NSCopying, NSDictionary, NSError, NSException, NSMutableArray, NSMutableCopying, NSMutableDictionary,
    NSOperatingSystemVersion, NSProcessInfo, NSString,
};

use crate::{
    live,
    runtime::{exception, foundation},
};

fn strings(texts: &[&str]) -> Vec<Retained<NSString>> {
    texts.iter().map(|text| NSString::from_str(text)).collect()
}

#[test]
fn an_array_keeps_its_objects_in_order_and_releases_them() {
    let objects = strings(&["a", "b", "c"]);
    autoreleasepool(|_| {
        let array = NSArray::from_retained_slice(&objects);
        assert_eq!(array.count(), 3);
        assert_eq!(array.objectAtIndex(1).to_string(), "b");
        assert_eq!(array.iter().map(|text| text.to_string()).collect::<String>(), "abc");
        assert_eq!(array.to_vec(), objects);
        assert_eq!(array.objects_in_range(1..3), objects[1..]);
        assert_eq!((array.firstObject(), array.lastObject()), (Some(objects[0].clone()), Some(objects[2].clone())));
        assert!(array.containsObject(&NSString::from_str("c")) && !array.containsObject(&NSString::from_str("d")));
        assert_eq!(array.indexOfObject(&NSString::from_str("d")), isize::MAX as usize);
        assert_eq!(array, NSArray::from_retained_slice(&objects));
        assert_eq!(array.copy(), array);
        let names: Vec<_> = array.into_iter().collect();
        assert_eq!(names.len(), 3);
    });
    assert!(objects.iter().all(|object| live::references(object) == 1));
}

#[test]
fn more_objects_than_an_enumeration_asks_for_at_once_all_come() {
    let objects: Vec<_> = (0..100).map(|number| NSString::from_str(&number.to_string())).collect();
    let array = NSArray::from_retained_slice(&objects);
    let seen: Vec<_> = array.iter().map(|text| text.to_string().parse::<u32>().unwrap()).collect();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
}

#[test]
fn an_index_beyond_an_array_throws() {
    autoreleasepool(|_| {
        let array = AssertUnwindSafe(NSArray::from_retained_slice(&strings(&["a"])));
        let caught = exception::catch(|| array.objectAtIndex(1)).unwrap_err().unwrap();
        let caught = NSException::from_exception(caught).unwrap();
        assert!(format!("{caught:?}").contains("NSRangeException"), "{caught:?}");
    });
}

#[test]
fn a_mutable_array_changes_and_a_copy_of_it_does_not() {
    let objects = strings(&["a", "b", "c"]);
    let array = NSMutableArray::<NSString>::new();
    objects.iter().for_each(|object| array.addObject(object));
    let copy: Retained<NSArray<NSString>> = array.copy();
    array.insert(0, &objects[2]);
    array.removeObjectAtIndex(1);
    array.replaceObjectAtIndex_withObject(1, &objects[0]);
    array.removeLastObject();
    assert_eq!(array.to_vec(), [objects[2].clone(), objects[0].clone()]);
    assert_eq!(copy.to_vec(), objects);
    let other = copy.mutableCopy();
    other.removeAllObjects();
    assert_eq!((other.count(), copy.count()), (0, 3));
}

#[test]
#[should_panic = "mutation detected during enumeration"]
fn a_change_during_an_enumeration_is_noticed() {
    let array = NSMutableArray::from_retained_slice(&strings(&["a", "b", "c"]));
    for text in array.iter() {
        array.addObject(&text);
    }
}

#[test]
fn a_dictionary_finds_by_equal_keys_that_it_has_copied() {
    let keys = strings(&["one", "two", "one"]);
    let values = [NSObject::new(), NSObject::new(), NSObject::new()];
    autoreleasepool(|_| {
        let keys: Vec<&NSString> = keys.iter().map(|key| &**key).collect();
        let dictionary = NSDictionary::from_retained_objects(&keys, &values);
        assert_eq!(dictionary.count(), 2);
        assert_eq!(dictionary.objectForKey(&NSString::from_str("one")).as_ref(), Some(&values[2]));
        assert!(dictionary.objectForKey(&NSString::from_str("three")).is_none());
        assert_eq!(dictionary.allKeys().iter().map(|key| key.to_string()).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(dictionary.keys().count(), 2);
        let (found, objects) = dictionary.to_vecs();
        assert_eq!((found.len(), objects), (2, vec![values[2].clone(), values[1].clone()]));
        let other: Retained<NSMutableDictionary<NSString, NSObject>> = dictionary.mutableCopy();
        other.removeObjectForKey(&NSString::from_str("one"));
        other.insert(&*NSString::from_str("three"), &values[0]);
        assert_eq!((other.count(), dictionary.count()), (2, 2));
        assert_ne!(&**other, &*dictionary);
    });
    assert!(values.iter().all(|value| live::references(value) == 1));
}

#[test]
fn an_error_says_where_what_and_why() {
    autoreleasepool(|_| {
        let error = foundation::error("RigDomain", -3, "no room");
        assert_eq!(
            (error.domain().to_string(), error.code(), error.to_string()),
            ("RigDomain".into(), -3, "no room".into())
        );
        assert_eq!(error.userInfo().count(), 0);
        let plain = NSError::new(7, &NSString::from_str("Other"));
        assert!(plain.to_string().ends_with("(Other error 7.)"), "{plain}");
        let words = NSString::from_str("in words");
        let key = NSError::NSLocalizedDescriptionKey();
        let info = NSDictionary::from_slices(&[key], &[&**words as &AnyObject]);
        // SAFETY: the value under this key is a string.
        let told = unsafe { NSError::initWithDomain_code_userInfo(NSError::alloc(), key, 1, Some(&info)) };
        assert_eq!(told.localizedDescription(), words);
        assert_eq!(told.domain().to_string(), "NSLocalizedDescriptionKey");
        assert_eq!(live::references(key), usize::MAX, "a constant has no count");
    });
}

#[test]
fn the_process_tells_the_version_it_was_told() {
    autoreleasepool(|_| {
        let at_least = |major, minor| {
            let least = NSOperatingSystemVersion { majorVersion: major, minorVersion: minor, patchVersion: 0 };
            NSProcessInfo::processInfo().isOperatingSystemAtLeastVersion(least)
        };
        foundation::version_comes_from(|| [14, 6, 1]);
        assert!(at_least(14, 6) && at_least(13, 9) && !at_least(14, 7) && !at_least(15, 0));
        foundation::version_comes_from(|| [15, 0, 0]);
        let version = NSProcessInfo::processInfo().operatingSystemVersion();
        assert_eq!((version.majorVersion, version.minorVersion, version.patchVersion), (15, 0, 0));
        assert!(NSProcessInfo::processInfo().isKindOfClass(objc2::class!(NSProcessInfo)));
    });
}
